import { html, render, useCallback, useEffect, useState } from "./preact.js";
import { begin, call, speak } from "./api.js";
import { Ask } from "./ask.js";
import { Documents } from "./documents.js";
import { Search } from "./search.js";
import { Viewer } from "./viewer.js";
import { preferred, speaker } from "./words.js";

function App() {
  const [language, setLanguage] = useState(preferred());
  const [status, setStatus] = useState(null);
  const [failed, setFailed] = useState("");
  const [tab, setTab] = useState("ask");
  const [library, setLibrary] = useState("");
  const [view, setView] = useState(null);
  const say = speaker(language);
  speak(language);

  useEffect(() => { document.documentElement.lang = language === "zh" ? "zh-CN" : "en"; }, [language]);
  const refresh = useCallback(async () => {
    try {
      const now = await call("/api/status");
      setStatus(now);
      setLibrary((chosen) => chosen || now.libraries[0].name);
      setFailed("");
    } catch (error) {
      setFailed(error.status === 401 ? "noToken" : error.message);
    }
  }, []);
  useEffect(() => {
    begin().then(refresh, refresh);
    const timer = setInterval(refresh, 15000);
    return () => clearInterval(timer);
  }, []);

  const change = () => {
    const next = language === "zh" ? "en" : "zh";
    localStorage.setItem("language", next);
    setLanguage(next);
  };
  const current = status && status.libraries.find((one) => one.name === library);
  const shared = { say, library, show: setView, refresh, empty: current ? current.documents === 0 : false };
  const tabs = ["ask", "documents", "search"];
  return html`
    <header>
      <span class="brand" aria-hidden="true"></span><strong>localrag</strong>
      <nav aria-label="localrag">
        ${tabs.map((name) => html`<button key=${name} class="tab" aria-current=${tab === name ? "page" : undefined}
          onClick=${() => setTab(name)}>${say(name)}</button>`)}
      </nav>
      <span class="space"></span>
      ${status && status.libraries.length > 1 && html`<label class="quiet">${say("library")}
        <select value=${library} onChange=${(event) => setLibrary(event.target.value)}>
          ${status.libraries.map((one) => html`<option key=${one.name}>${one.name}</option>`)}
        </select></label>`}
      ${status && html`<span class=${status.outside ? "guard alert" : "guard"}>
        ${say("outside", { count: status.outside })}</span>`}
      <button class="quiet" lang=${language === "zh" ? "en" : "zh-CN"} onClick=${change}>${say("switch")}</button>
    </header>
    ${failed && html`<p class="failed" role="alert">${failed === "noToken" ? say("noToken") : failed}</p>`}
    <div class=${view ? "columns" : ""}>
      <main>
        <div hidden=${tab !== "ask"}><${Ask} ...${shared} toDocuments=${() => setTab("documents")} /></div>
        ${tab === "documents" && html`<${Documents} ...${shared} />`}
        ${tab === "search" && html`<${Search} ...${shared} />`}
      </main>
      ${view && html`<${Viewer} say=${say} view=${view} close=${() => setView(null)} />`}
    </div>
    ${status && html`<footer>${say("version", { version: status.version })} ·
      <a href="/source">${say("source", { licence: status.licence })}</a></footer>`}`;
}

render(html`<${App} />`, document.getElementById("app"));
