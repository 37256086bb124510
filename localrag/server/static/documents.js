import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { call } from "./api.js";
import { useAdding } from "./adding.js";
import { Reader } from "./reader.js";

const SHOWS = { all: "allDocuments", problems: "problemsDocuments", unread: "unreadDocuments" };

export function Documents({ say, language, library, refresh, dropped, total, may }) {
  const [documents, setDocuments] = useState(null);
  const [unread, setUnread] = useState([]);
  const [next, setNext] = useState(null);
  const [words, setWords] = useState("");
  const [shows, setShows] = useState("all");
  const [failed, setFailed] = useState("");
  const [reading, setReading] = useState(null);
  const asked = useRef(0);
  const opener = useRef("");

  // What is asked for last is shown, whatever comes back when.
  const load = async (from = null) => {
    if (!library) return;
    const mine = (asked.current += 1);
    const path = shows === "unread" ? "/api/unread" : "/api/documents";
    const query = new URLSearchParams({ library, words });
    if (shows === "problems") query.set("problems", "1");
    if (from !== null) query.set(shows === "unread" ? "after" : "before", from);
    try {
      const found = await call(`${path}?${query}`);
      if (mine !== asked.current) return;
      const more = (before, now) => (from === null ? now || [] : [...(before || []), ...(now || [])]);
      setDocuments((all) => more(all, found.documents));
      setUnread((all) => more(all, found.unread));
      setNext(found.next);
      setFailed("");
    } catch (error) { if (mine === asked.current) setFailed(error.status ? error.message : say("unreachable")); }
  };
  const latest = useRef(load);
  latest.current = load;
  const changed = async () => { await latest.current(); refresh(); };
  const adding = useAdding({ say, library, changed });
  useEffect(() => { setReading(null); }, [library]);
  useEffect(() => {
    const timer = setTimeout(load, words ? 250 : 0);
    return () => clearTimeout(timer);
  }, [library, language, words, shows]);
  useEffect(() => { if (dropped.length) { setReading(null); adding.add(dropped); } }, [dropped]);
  useLayoutEffect(() => {
    if (reading || !opener.current) return;
    document.getElementById(opener.current)?.focus();
    opener.current = "";
  }, [reading]);

  const read = (one, at) => { opener.current = `read-${one.id}`; setReading({ document: one, at }); };
  const remove = async (one) => {
    if (!confirm(say("removeAsk", { name: one.title }))) return;
    try {
      await call(`/api/documents/${one.id}?${new URLSearchParams({ library })}`, { method: "DELETE" });
    } catch (error) { setFailed(error.message); return; }
    dispatchEvent(new CustomEvent("document-removed", { detail: { id: one.id, name: one.title } }));
    setDocuments((all) => all.filter((each) => each.id !== one.id));
    refresh();
  };
  if (reading) {
    return html`<${Reader} key=${reading.document.id} say=${say} language=${language} library=${library} document=${reading.document}
      at=${reading.at} close=${() => setReading(null)} />`;
  }
  const chosen = (event) => { adding.add([...event.target.files].filter((file) => !file.name.startsWith("."))); event.target.value = ""; };
  const none = documents && !documents.length && !unread.length;
  return html`<section aria-label=${say("documents")}>
    ${may("editor") && html`<div class="drop">
      <p>${say("dropHere")}</p>
      <div class="row">
        <label class="button main"><input type="file" multiple class="unseen" onChange=${chosen} />${say("addFiles")}</label>
        <label class="button"><input type="file" webkitdirectory class="unseen" onChange=${chosen} />${say("addFolder")}</label>
      </div>
      <small class="quiet">${say("kept")}</small>
    </div>`}
    <${Adding} say=${say} adding=${adding} />
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    ${(total > 0 || unread.length > 0 || shows !== "all") && html`<form class="line" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label class="unseen" for="filter">${say("filter")}</label>
      <input id="filter" type="search" value=${words} placeholder=${say("filter")} onInput=${(event) => setWords(event.target.value)} />
      <label class="unseen" for="shows">${say("shows")}</label>
      <select id="shows" value=${shows} onChange=${(event) => setShows(event.target.value)}>
        ${Object.entries(SHOWS).map(([name, text]) => html`<option key=${name} value=${name}>${say(text, { count: total })}</option>`)}
      </select></form>`}
    ${documents && documents.length > 0 && html`<ul class="documents">${documents.map((one) => html`<${Row} key=${one.id} say=${say}
      one=${one} read=${read} remove=${may("editor") && remove} />`)}</ul>`}
    ${unread.length > 0 && html`<ul class="documents">${unread.map((one) => html`<li key=${one.source}>
      <div class="path">${one.source}</div><${Problem} say=${say} one=${one} /></li>`)}</ul>`}
    ${none && html`<p class="empty">${say(words ? "nothing" : shows === "all" ? (may("editor") ? "noDocuments" : "stillEmpty") : shows === "problems" ? "noProblems" : "noUnread")}</p>`}
    ${next !== null && html`<p class="row"><button onClick=${() => load(next)}>${say("more")}</button></p>`}
  </section>`;
}

function Adding({ say, adding }) {
  const { all, shown, waiting, done, failed } = adding;
  return html`<div class="adding">
    ${all > 1 && html`<p class="row" role="status">
      <progress max=${all} value=${all - waiting.length} aria-label=${say("added")}></progress>
      <span>${say("addedOf", { done: done.length, all })}${failed > 0 && say("failedOf", { count: failed })}</span><span class="space"></span>
      ${waiting.length > 0
        ? html`<button class="quiet" onClick=${() => adding.stop(...waiting)}>${say("stopAll")}</button>`
        : html`<button class="quiet" onClick=${adding.clear}>${say("clear")}</button>`}</p>`}
    <div role="log" aria-label=${say("added")}><ul>${shown.map((one) => html`<li key=${one} class=${one.failed ? "failed" : ""} aria-busy=${!one.done}>
      <b>${one.name}</b> ${one.said}
      ${!one.done && html` <button class="quiet" onClick=${() => adding.stop(one)} aria-label=${say("stopName", { name: one.name })}>${say("stop")}</button>`}</li>`)}</ul></div>
  </div>`;
}

function Row({ say, one, read, remove }) {
  const about = [
    one.pages > 1 && say("pages", { count: one.pages }),
    say(one.chunks === 1 ? "passage" : "passages", { count: one.chunks }),
    known(one.language) && new Intl.DisplayNames([say("tag")], { type: "language" }).of(one.language),
    new Date(one.added_at).toLocaleDateString(say("tag")),
  ].filter(Boolean).join(" · ");
  return html`<li>
    <div class="row"><button class="source" id=${`read-${one.id}`} onClick=${() => read(one, {})}>${one.title}</button>
      <span class="space"></span>
      ${remove && html`<button class="quiet" onClick=${() => remove(one)} aria-label=${say("removeName", { name: one.title })}>${say("remove")}</button>`}</div>
    <div class="quiet">${about}</div>
    <div class="quiet path">${one.sources.join(say("comma"))}</div>
    ${one.state !== "same" && html`<p class="problem"><span aria-hidden="true">⚠ </span>${say(one.state)}</p>`}
    ${one.problems.map((each, number) => html`<${Problem} key=${number} say=${say} one=${each} go=${(page) => read(one, { number: page })} />`)}
    ${one.more_problems > 0 && html`<p class="quiet">${say("moreProblems", { count: one.more_problems })}</p>`}</li>`;
}

export function Problem({ say, one, go }) {
  const pages = say("onPages", { pages: one.pages });
  return html`<p class="problem"><span aria-hidden="true">⚠ </span>${one.pages && (go
    ? html`<button class="source" onClick=${() => go(one.numbers[0])}>${pages.trim()}</button> `
    : pages)}${one.reason}
    ${one.advice && html`<br /><span class="quiet">${one.advice}</span>`}</p>`;
}

function known(language) {
  return /^[a-z]{2,3}$/.test(language) && language !== "und";
}
