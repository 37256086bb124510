import { html, render, useCallback, useEffect, useRef, useState } from "./preact.js";
import { filesOf } from "./adding.js";
import { begin, call, speak } from "./api.js";
import { Ask } from "./ask.js";
import { Compare } from "./compare.js";
import { Documents } from "./documents.js";
import { Evaluate } from "./evaluate.js";
import { Help, useKeys } from "./keys.js";
import { Search } from "./search.js";
import { Settings } from "./settings.js";
import { Viewer } from "./viewer.js";
import { preferred, speaker } from "./words.js";

// A link from another client: its fragment names one place, and holds the key to that alone. Some
// clients, such as Open WebUI, write "#:~:text=..." behind it, of which browsers leave the "#".
const linked = location.pathname === "/view";
const placed = () => Object.fromEntries(new URLSearchParams(location.hash.split("#")[1]));
const narrow = matchMedia("(max-width: 800px)");
const EVERY = 5000;  // milliseconds between two looks at the server

function App() {
  const [language, setLanguage] = useState(preferred());
  const [status, setStatus] = useState(null);
  const [failed, setFailed] = useState("");
  const [tab, setTab] = useState("ask");
  const [library, setLibrary] = useState("");
  const [view, setView] = useState(linked ? placed() : null);
  const [dropped, setDropped] = useState([]);
  const [helping, setHelping] = useState(false);
  const opener = useRef(null);
  const head = useRef(null);
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
      setFailed(error.status === 401 ? "noToken" : error.status ? error.message : "unreachable");
    }
  }, []);
  useEffect(() => {
    if (linked) {  // another link in the same window
      const changed = () => setView(placed());
      addEventListener("hashchange", changed);
      return () => removeEventListener("hashchange", changed);
    }
    begin().then(refresh, refresh);
    const look = () => { if (!document.hidden) refresh(); };
    const timer = setInterval(look, EVERY);
    addEventListener("visibilitychange", look);
    return () => { clearInterval(timer); removeEventListener("visibilitychange", look); };
  }, []);
  useEffect(() => {  // what stands below the header has to know where that ends
    const measured = () => document.documentElement.style.setProperty("--head", `${head.current.offsetHeight}px`);
    const watching = new ResizeObserver(measured);
    watching.observe(head.current);
    return () => watching.disconnect();
  }, []);
  useKeys(linked ? {} : { "?": () => setHelping(true) });

  const change = () => {
    const next = language === "zh" ? "en" : "zh";
    localStorage.setItem("language", next);
    setLanguage(next);
  };
  const show = (place) => {
    if (!view) opener.current = document.activeElement;
    setView(place);
  };
  const close = () => setView(null);
  useEffect(() => {
    if (view) return;
    opener.current?.focus();
    opener.current = null;
  }, [view]);
  useEffect(() => {
    if (!view || linked) return undefined;
    const keys = (event) => { if (event.key === "Escape" && !event.isComposing && !document.querySelector("dialog[open]")) close(); };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, [view]);
  useEffect(() => {  // wherever a file is dropped, the browser must not leave the page to show it
    const dragging = (now) => document.body.classList.toggle("dragging", now && !linked);
    const over = (event) => { event.preventDefault(); dragging(event.dataTransfer.types.includes("Files")); };
    const leave = (event) => { if (!event.relatedTarget) dragging(false); };
    const drop = async (event) => {
      event.preventDefault();
      dragging(false);
      if (linked) return;
      const files = await filesOf(event.dataTransfer);
      if (!files.length) return;
      setTab("documents");
      setDropped(files);
    };
    const heard = { dragover: over, dragleave: leave, drop };
    for (const [name, hear] of Object.entries(heard)) addEventListener(name, hear);
    return () => { for (const [name, hear] of Object.entries(heard)) removeEventListener(name, hear); };
  }, []);

  const switcher = html`<button class="quiet" lang=${language === "zh" ? "en" : "zh-CN"} onClick=${change}>${say("switch")}</button>`;
  if (linked) {
    return html`<header ref=${head}><span class="brand" aria-hidden="true"></span><h1>localrag</h1><span class="space"></span>${switcher}</header>
      <main class="alone"><${Viewer} say=${say} language=${language} view=${view} /></main>
      <footer><a href="/source">${say("source", { licence: "AGPL-3.0-or-later" })}</a></footer>`;
  }
  const current = status && status.libraries.find((one) => one.name === library);
  const shared = { say, language, library, show, refresh, total: current ? current.documents : 0, empty: current ? current.documents === 0 : false };
  const tabs = ["ask", "documents", "search", "compare", "evaluate", "settings"];
  return html`
    <header ref=${head}>
      <span class="brand" aria-hidden="true"></span><h1>localrag</h1>
      <nav aria-label="localrag">
        ${tabs.map((name) => html`<button key=${name} class="tab" aria-current=${tab === name ? "page" : undefined}
          onClick=${() => setTab(name)}>${say(name)}</button>`)}
      </nav>
      <span class="space"></span>
      ${status && status.libraries.length > 1 && html`<label class="quiet">${say("library")}${" "}
        <select value=${library} onChange=${(event) => setLibrary(event.target.value)}>
          ${status.libraries.map((one) => html`<option key=${one.name}>${one.name}</option>`)}
        </select></label>`}
      ${status && html`<${Guard} say=${say} status=${status} />`}
      ${switcher}
    </header>
    ${failed && html`<p class="failed" role="alert">${["noToken", "unreachable"].includes(failed) ? say(failed) : failed}</p>`}
    <div class=${view ? "columns" : ""}>
      <main inert=${Boolean(view) && narrow.matches}>
        <div hidden=${tab !== "ask"}><${Ask} ...${shared} view=${view} shown=${tab === "ask"} preset=${current ? current.mode : "standard"} toDocuments=${() => setTab("documents")} /></div>
        <div hidden=${tab !== "documents"}><${Documents} ...${shared} dropped=${dropped} /></div>
        <div hidden=${tab !== "search"}><${Search} ...${shared} toDocuments=${() => setTab("documents")} /></div>
        <div hidden=${tab !== "compare"}><${Compare} ...${shared} toDocuments=${() => setTab("documents")} /></div>
        <div hidden=${tab !== "evaluate"}><${Evaluate} ...${shared} /></div>
        <div hidden=${tab !== "settings"}><${Settings} ...${shared} shown=${tab === "settings"} /></div>
      </main>
      ${view && html`<${Viewer} say=${say} language=${language} view=${view} close=${close} alone=${narrow.matches} />`}
    </div>
    ${status && html`<footer>${say("version", { version: status.version })} ·${" "}
      <a href="/source">${say("source", { licence: status.licence })}</a><span class="space"></span>
      <button class="quiet" onClick=${() => setHelping(true)}>${say("keys")}</button></footer>`}
    ${helping && html`<${Help} say=${say} close=${() => setHelping(false)} />`}`;
}

// What has left this machine, and what tried to, since the server started.
function Guard({ say, status }) {
  const { outside, blocked } = status;
  return html`<span class=${outside ? "guard alert" : "guard"} role="status">
    ${say(outside === 1 ? "outsideOnce" : "outside", { count: outside })}
    ${blocked > 0 && html`<span class="blocked"> ${say(blocked === 1 ? "blockedOnce" : "blocked", { count: blocked })}</span>`}</span>`;
}

render(html`<${App} />`, document.getElementById("app"));
