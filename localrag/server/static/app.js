import { html, render, useCallback, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { filesOf } from "./adding.js";
import { begin, call, speak } from "./api.js";
import { Ask } from "./ask.js";
import { Compare } from "./compare.js";
import { Documents } from "./documents.js";
import { Evaluate } from "./evaluate.js";
import { Help, useKeys } from "./keys.js";
import { Search } from "./search.js";
import { Settings } from "./settings.js";
import { SignIn } from "./signing.js";
import { SummaryPage } from "./summary.js";
import { TablePage } from "./table.js";
import { Viewer } from "./viewer.js";
import { following, preferred, speaker } from "./words.js";

// A link from another client: its fragment names one place, and holds the key to that alone. Some
// clients, such as Open WebUI, write "#:~:text=..." behind it, of which browsers leave the "#".
const linked = location.pathname === "/view";
const placed = () => Object.fromEntries(new URLSearchParams(location.hash.split("#")[1]));
const narrow = matchMedia("(max-width: 800px)");
const ROLES = ["reader", "editor", "owner"];
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
  const adds = useRef(false);
  const [signing, setSigning] = useState(false);  // before a link shows its place
  const say = speaker(language);
  speak(language);

  useEffect(() => { document.documentElement.lang = say("tag"); }, [language]);
  const refresh = useCallback(async () => {
    try {
      const now = await call("/api/status");
      setStatus(now);
      const names = now.libraries.map((one) => one.name);
      setLibrary((chosen) => (names.includes(chosen) ? chosen : names[0] || ""));
      setFailed("");
    } catch (error) {
      setFailed(error.status === 401 ? "signIn" : error.status ? error.message : "unreachable");
    }
  }, []);
  useEffect(() => {
    if (linked) {  // another link in the same window
      const changed = () => setView(placed());
      addEventListener("hashchange", changed);
      return () => removeEventListener("hashchange", changed);
    }
    begin().then(refresh, refresh);
    // A token that is opened in the window of somebody else, or of nobody.
    const another = () => { if (location.hash) begin().then((came) => came && location.reload(), refresh); };
    addEventListener("hashchange", another);
    const look = () => { if (!document.hidden) refresh(); };
    const timer = setInterval(look, EVERY);
    addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      removeEventListener("visibilitychange", look);
      removeEventListener("hashchange", another);
    };
  }, []);
  useEffect(() => {  // what stands below the header has to know where that ends
    const measured = () => document.documentElement.style.setProperty("--head", `${head.current.offsetHeight}px`);
    const watching = new ResizeObserver(measured);
    watching.observe(head.current);
    return () => watching.disconnect();
  }, []);
  useKeys(linked ? {} : { "?": () => setHelping(true) });

  const change = () => {
    const next = following(language);
    localStorage.setItem("language", next);
    setLanguage(next);
  };
  const show = (place) => {
    if (!view) opener.current = document.activeElement;
    setView(place);
  };
  const close = () => setView(null);
  useLayoutEffect(() => {  // before the next key, which is not the opener's
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
      if (linked || !adds.current) return;
      const files = await filesOf(event.dataTransfer);
      if (!files.length) return;
      setTab("documents");
      setDropped(files);
    };
    const heard = { dragover: over, dragleave: leave, drop };
    for (const [name, hear] of Object.entries(heard)) addEventListener(name, hear);
    return () => { for (const [name, hear] of Object.entries(heard)) removeEventListener(name, hear); };
  }, []);

  const next = speaker(following(language));
  const switcher = html`<button class="quiet" lang=${next("tag")} onClick=${change}>${next("own")}</button>`;
  if (linked) {
    return html`<header ref=${head}><span class="brand" aria-hidden="true"></span><h1>localrag</h1><span class="space"></span>${switcher}</header>
      <main class="alone">${signing ? html`<${SignIn} say=${say} />`
        : html`<${Viewer} say=${say} language=${language} view=${view} unknown=${() => setSigning(true)} />`}</main>
      <footer><a href="/source">${say("source", { licence: "AGPL-3.0-or-later" })}</a></footer>`;
  }
  if (failed === "signIn") {
    return html`<header ref=${head}><span class="brand" aria-hidden="true"></span><h1>localrag</h1><span class="space"></span>${switcher}</header>
      <main><${SignIn} say=${say} /></main>
      <footer><a href="/source">${say("source", { licence: "AGPL-3.0-or-later" })}</a></footer>`;
  }
  const current = status && status.libraries.find((one) => one.name === library);
  const user = status && status.user;
  // What somebody may not do is not offered; the server refuses it anyway.
  const may = (role) => !user || Boolean(current) && ROLES.indexOf(current.role) >= ROLES.indexOf(role);
  adds.current = may("editor");
  const shared = { say, language, library, show, refresh, may, user, total: current ? current.documents : 0, empty: current ? current.documents === 0 : false };
  const toDocuments = may("editor") ? () => setTab("documents") : null;
  const none = Boolean(user) && !status.libraries.length;
  const tabs = none ? [] : ["ask", "documents", "search", "table", "summary", "compare", ...(may("owner") ? ["evaluate"] : []), ...(user ? [] : ["settings"])];
  const at = tabs.includes(tab) ? tab : "ask";  // what another library offers
  const leave = async () => {
    try { await call("/session", { method: "DELETE" }); location.reload(); } catch (error) { setFailed(error.status ? error.message : "unreachable"); }
  };
  return html`
    <header ref=${head}>
      <span class="brand" aria-hidden="true"></span><h1>localrag</h1>
      <nav aria-label="localrag">
        ${tabs.map((name) => html`<button key=${name} class="tab" aria-current=${at === name ? "page" : undefined}
          onClick=${() => setTab(name)}>${say(name)}</button>`)}
      </nav>
      <span class="space"></span>
      ${status && status.libraries.length > 1 && html`<label class="quiet">${say("library")}${" "}
        <select value=${library} onChange=${(event) => setLibrary(event.target.value)}>
          ${status.libraries.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}
        </select></label>`}
      ${status && html`<${Guard} say=${say} status=${status} />`}
      ${user && html`<span class="quiet user" title=${say("signedIn")}>${user.name}</span>`}
      ${user && !user.by_proxy && html`<button class="quiet" onClick=${leave}>${say("signOut")}</button>`}
      ${switcher}
    </header>
    ${failed && html`<p class="failed" role="alert">${failed === "unreachable" ? say(failed) : failed}</p>`}
    ${none ? html`<main><p class="empty">${say("noLibraries")}</p></main>` : html`<div class=${view ? "columns" : ""}>
      <main inert=${Boolean(view) && narrow.matches}>
        <div hidden=${at !== "ask"}><${Ask} ...${shared} view=${view} shown=${at === "ask"} preset=${current ? current.mode : "standard"} toDocuments=${toDocuments} /></div>
        <div hidden=${at !== "documents"}><${Documents} ...${shared} dropped=${dropped} /></div>
        <div hidden=${at !== "search"}><${Search} ...${shared} toDocuments=${toDocuments} /></div>
        <div hidden=${at !== "table"}><${TablePage} ...${shared} view=${view} shown=${at === "table"} toDocuments=${toDocuments} /></div>
        <div hidden=${at !== "summary"}><${SummaryPage} ...${shared} view=${view} shown=${at === "summary"} toDocuments=${toDocuments} /></div>
        <div hidden=${at !== "compare"}><${Compare} ...${shared} toDocuments=${toDocuments} /></div>
        ${may("owner") && html`<div hidden=${at !== "evaluate"}><${Evaluate} ...${shared} /></div>`}
        ${!user && html`<div hidden=${at !== "settings"}><${Settings} ...${shared} shown=${at === "settings"} /></div>`}
      </main>
      ${view && html`<${Viewer} say=${say} language=${language} view=${view} close=${close} alone=${narrow.matches} />`}
    </div>`}
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
