import { html, useEffect, useState } from "./preact.js";
import { call } from "./api.js";
import { Dialog } from "./dialog.js";

// Conversations that are kept in the library, and whether any are to be.
export function History({ say, library, may, user, close, open, forgotten }) {
  const [kept, setKept] = useState(null);
  const [failed, setFailed] = useState("");
  const [leaving, setLeaving] = useState(false);
  const at = (key = "") => `/api/history${key && `/${key}`}?${new URLSearchParams({ library })}`;
  const attempt = async (act) => {
    try { await act(); setFailed(""); } catch (error) { setFailed(error.message); }
  };
  const load = async () => setKept(await call(at()));
  useEffect(() => { attempt(load); }, []);
  const turn = (on) => attempt(async () => {
    const found = await call("/api/history", { method: "POST", body: { library, on } });
    setKept(found);
    setLeaving(!on && found.conversations.length > 0);
  });
  const forget = (key) => attempt(async () => {
    await call(at(key), { method: "DELETE" });
    forgotten(key);
    setLeaving(false);
    await load();
  });
  const look = (key) => attempt(async () => open(await call(at(key))));
  const day = new Intl.DateTimeFormat(say("dates"), { dateStyle: "medium", timeStyle: "short" });
  const count = (one) => say(one.answers === 1 ? "oneAnswer" : "answers", { count: one.answers });
  return html`<${Dialog} say=${say} title=${say("history")} close=${close}>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    ${kept && html`
      ${may("owner") && html`<label class="check strong"><input type="checkbox" checked=${kept.on} onChange=${(event) => turn(event.target.checked)} /> ${say("keep")}</label>`}
      <p class="quiet hint">${say(user ? "keepShared" : "keepHow")}</p>
      ${leaving && html`<div class="ask-back" role="alert"><p>${say("keepOff")}</p><div class="row">
        <button class="danger" onClick=${() => forget("")}>${say("forgetAll")}</button>
        <button onClick=${() => setLeaving(false)}>${say("keepThem")}</button></div></div>`}
      ${kept.conversations.length > 0
        ? html`<ul class="kept">${kept.conversations.map((one) => html`<li key=${one.key}>
            <button class="source" onClick=${() => look(one.key)}>${one.title}</button>
            <span class="quiet">${count(one)} · ${day.format(new Date(one.last))}</span>
            <button class="quiet" onClick=${() => forget(one.key)} aria-label=${say("forgetName", { name: one.title })}>${say("forget")}</button></li>`)}</ul>
          ${!leaving && kept.conversations.length > 1 && html`<button class="quiet" onClick=${() => { if (confirm(say("forgetSure"))) forget(""); }}>${say("forgetAll")}</button>`}`
        : html`<p class="quiet nothing">${say(kept.on ? "keptSoon" : "keptNone")}</p>`}`}
  </${Dialog}>`;
}
