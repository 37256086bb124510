import { html, useEffect, useRef, useState } from "./preact.js";
import { call, upload } from "./api.js";

export function Documents({ say, language, library, show, refresh, dropped }) {
  const [documents, setDocuments] = useState(null);
  const [unread, setUnread] = useState([]);
  const [adding, setAdding] = useState([]);
  const [failed, setFailed] = useState("");
  const turn = useRef(Promise.resolve());
  const load = async () => {
    try {
      const found = await call(`/api/documents?${new URLSearchParams({ library })}`);
      setDocuments(found.documents);
      setUnread(found.unread);
      setFailed("");
    } catch (error) { setFailed(error.message); }
  };
  useEffect(() => { if (library) load(); }, [library, language]);
  useEffect(() => { if (dropped.length) add(dropped); }, [dropped]);

  // One file after the other, however many were dropped how often.
  const add = (files) => {
    for (const file of files) {
      const one = { name: file.name, said: say("waits"), done: false, failed: false, stopping: new AbortController() };
      setAdding((all) => [...all, one]);
      turn.current = turn.current.then(() => send(file, one));
    }
  };
  const send = async (file, one) => {
    const tell = (change) => { Object.assign(one, change); setAdding((all) => [...all]); };
    if (one.done) return;
    tell({ said: say("sending") });
    try {
      for await (const [name, data] of await upload(library, file, one.stopping.signal)) {
        if (name === "progress") tell({ said: data.said });
        else if (name === "done") tell({ said: data.said, done: true, failed: data.failed });
        else if (name === "error") tell({ said: data.message, done: true, failed: true });
      }
      if (!one.done) tell({ said: say("unreachable"), done: true, failed: true });
    } catch (error) {
      tell({ said: error.name === "AbortError" ? say("stopped") : error.status ? error.message : say("unreachable"), done: true, failed: error.name !== "AbortError" });
    }
    await load();
    refresh();
  };
  const stop = (one) => {
    one.stopping.abort();
    Object.assign(one, { said: say("stopped"), done: true });
    setAdding((all) => [...all]);
  };
  const remove = async (one) => {
    if (!confirm(say("removeAsk", { name: one.title }))) return;
    try {
      await call(`/api/documents/${one.id}?${new URLSearchParams({ library })}`, { method: "DELETE" });
    } catch (error) { setFailed(error.message); return; }
    await load();
    refresh();
  };
  const languages = new Intl.DisplayNames([language === "zh" ? "zh-CN" : "en"], { type: "language" });
  const size = (one) => [
    one.pages > 1 && say("pages", { count: one.pages }),
    say(one.chunks === 1 ? "passage" : "passages", { count: one.chunks }),
  ].filter(Boolean).join(", ");
  return html`<section aria-label=${say("documents")}>
    <label class="drop">
      ${say("dropHere")}<br /><small class="quiet">${say("kept")}</small>
      <input type="file" multiple class="unseen" onChange=${(event) => { add([...event.target.files]); event.target.value = ""; }} />
    </label>
    <div role="log" aria-label=${say("added")}><ul class="adding">${adding.map((one, number) => html`<li key=${number} class=${one.failed ? "failed" : ""} aria-busy=${!one.done}>
      <b>${one.name}</b> ${one.said}
      ${!one.done && html` <button class="quiet" onClick=${() => stop(one)} aria-label=${say("stopName", { name: one.name })}>${say("stop")}</button>`}</li>`)}</ul></div>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    ${documents && documents.length > 0 && html`<ul class="documents">${documents.map((one) => html`<li key=${one.id}>
      <div class="row"><button class="source" onClick=${() => show({ library, document: one.id, start: 0, end: 0 })}>${one.title}</button>
        <span class="space"></span>
        <button class="quiet" onClick=${() => remove(one)} aria-label=${say("removeName", { name: one.title })}>${say("remove")}</button></div>
      <div class="quiet">${size(one)}${known(one.language) && ` · ${languages.of(one.language)}`}</div>
      <div class="quiet path">${one.sources.join(", ")}</div>
      ${one.problems.map((each, number) => html`<${Problem} key=${number} say=${say} one=${each} />`)}</li>`)}</ul>`}
    ${documents && documents.length === 0 && html`<p class="empty">${say("noDocuments")}</p>`}
    ${unread.length > 0 && html`<h2>${say("unread")}</h2><ul class="documents">${unread.map((one) => html`<li key=${one.source}>
      <div class="path">${one.source}</div><${Problem} say=${say} one=${one} /></li>`)}</ul>`}
  </section>`;
}

function known(language) {
  return /^[a-z]{2,3}$/.test(language) && language !== "und";
}

function Problem({ say, one }) {
  return html`<p class="problem"><span aria-hidden="true">⚠ </span>${one.pages && say("onPages", { pages: one.pages })}${one.reason}
    ${one.advice && html`<br /><span class="quiet">${one.advice}</span>`}</p>`;
}
