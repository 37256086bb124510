import { html, useEffect, useState } from "./preact.js";
import { call } from "./api.js";

// What may be changed here: a choice, a number or a switch.
const CONTROLS = {
  "answer.mode": ["standard", "self-rag"], "answer.k": "number", "answer.strict": "switch",
  "retrieval.mode": ["hybrid", "dense", "keyword"], "retrieval.k": "number",
  "retrieval.expansion": ["none", "multi-query", "hyde"],
  "reranker.kind": ["none", "keyword", "learned", "cross-encoder", "llm"],
};
const MOST = 50;

export function Settings({ say, language, refresh, shown }) {
  const [settings, setSettings] = useState(null);
  const [failed, setFailed] = useState("");
  const [saved, setSaved] = useState("");
  const attempt = async (act) => {
    try { setSettings((await act()).settings); setFailed(""); } catch (error) { setFailed(error.status ? error.message : say("unreachable")); setSaved(""); }
  };
  useEffect(() => { if (shown) { setSaved(""); attempt(() => call("/api/settings")); } }, [shown, language]);
  const change = (key, value) => attempt(async () => {
    const found = await call("/api/settings", { method: "POST", body: { key, value } });
    setSaved(key);
    refresh();
    return found;
  });
  const of = (key) => settings.find((one) => one.key === key);
  const others = settings ? settings.filter((one) => !one.changeable) : [];
  const [chosen, usual] = [others.filter((one) => one.given !== "default"), others.filter((one) => one.given === "default")];
  return html`<section class="settings" aria-label=${say("settings")}>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    ${settings && html`
      <h2>${say("changeable")}</h2>
      <p class="quiet hint">${say("changeHow")}</p>
      <div class="unseen" role="status">${saved && say("savedSetting", { name: say(saved) })}</div>
      ${Object.keys(CONTROLS).filter(of).map((key) => html`<${Changeable} key=${key} say=${say} one=${of(key)} saved=${saved === key} change=${change} />`)}
      <h2>${say("fixed")}</h2>
      <p class="quiet hint">${say("fixedHow")}</p>
      ${chosen.length > 0 && html`<${Table} say=${say} rows=${chosen} />`}
      <details><summary>${say("usual", { count: usual.length })}</summary><${Table} say=${say} rows=${usual} /></details>`}
  </section>`;
}

function Table({ say, rows }) {
  return html`<div class="scrolls"><table>
    <thead><tr><th scope="col">${say("setting")}</th><th scope="col">${say("value")}</th><th scope="col">${say("given")}</th></tr></thead>
    <tbody>${rows.map((one) => html`<tr key=${one.key}><th scope="row"><code>${one.key.split(/(?<=[._])/).map((part) => html`${part}<wbr />`)}</code></th>
      <td>${shownValue(say, one.value)}${one.later && html` <span class="quiet">${say("later")}</span>`}</td><td><${Giver} say=${say} one=${one} /></td></tr>`)}</tbody></table></div>`;
}

function Changeable({ say, one, saved, change }) {
  const kind = CONTROLS[one.key];
  const id = `setting-${one.key}`;
  const disabled = one.given === "variable";
  const send = (event) => {
    const { value, checked } = event.target;
    if (kind === "switch") change(one.key, checked);
    else if (kind !== "number") change(one.key, value);
    else if (event.target.reportValidity() && Number(value) !== one.value) change(one.key, Number(value));
  };
  const control = kind === "switch"
    ? html`<input id=${id} type="checkbox" checked=${one.value} disabled=${disabled} onChange=${send} />`
    : kind === "number"
      ? html`<input id=${id} type="number" min="1" max=${MOST} step="1" required value=${one.value} disabled=${disabled} onChange=${send} />`
      : html`<select id=${id} value=${one.value} disabled=${disabled} onChange=${send}>${kind.map((each) => html`<option key=${each} value=${each}>${say(`${one.key} ${each}`)}</option>`)}</select>`;
  return html`<div class="setting">
    <label for=${id}>${say(one.key)}</label>
    <span class="control">${control}</span>
    <span class="origin"><${Giver} say=${say} one=${one} />
      ${one.later && html`<span class="quiet">${say("later")}</span>`}
      ${one.given === "file" && html`<button class="quiet" onClick=${() => change(one.key, null)} aria-label=${say("toDefaultName", { name: say(one.key) })}>${say("toDefault")}</button>`}
      ${saved && html`<span class="done" aria-hidden="true">✓</span>`}</span>
  </div>`;
}

function Giver({ say, one }) {
  return one.given === "variable" ? html`<code>${one.variable}</code>` : html`<span class="quiet">${say(`given ${one.given}`)}</span>`;
}

function shownValue(say, value) {
  if (typeof value === "boolean") return say(value ? "on" : "off");
  return value === "" ? say("notSet") : String(value);
}
