import { html, useEffect, useRef, useState } from "./preact.js";
import { call } from "./api.js";
import { Passage } from "./passage.js";
import { Empty, Go } from "./work.js";

const NOTHING = { k: "", retrieval: "", rerank: "", expand: "", path: "", language: "", since: "", until: "", pages: "", types: [] };

export function Search({ say, library, show, empty, toDocuments }) {
  const [question, setQuestion] = useState("");
  const [wanted, setWanted] = useState(NOTHING);
  const [choices, setChoices] = useState(null);
  const [found, setFound] = useState(null);
  const [failed, setFailed] = useState("");
  const running = useRef(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => { running.current?.abort(); setFound(null); setFailed(""); }, [library]);
  const choose = () => { if (!choices) call("/api/search").then(setChoices, (error) => setFailed(error.message)); };

  const search = async (event) => {
    event.preventDefault();
    if (!question.trim()) return;
    const pages = readPages(wanted.pages);
    if (pages === undefined) { setFailed(say("badPages")); return; }
    running.current?.abort();
    const stopping = running.current = new AbortController();
    const { path, types } = wanted;
    const or = (value) => value || null;
    const body = {
      question, library, k: wanted.k ? Number(wanted.k) : null, retrieval: or(wanted.retrieval), rerank: or(wanted.rerank), expand: or(wanted.expand),
      filter: { path: /[*?[]/.test(path) || !path ? path : `*${path}*`, types, pages, language: or(wanted.language), since: or(wanted.since), until: or(wanted.until) },
    };
    setBusy(true);
    try {
      setFound(await call("/api/search", { method: "POST", body, signal: stopping.signal }));
      setFailed("");
    } catch (error) {
      if (error.name !== "AbortError") setFailed(error.status ? error.message : say("unreachable"));
    }
    if (running.current === stopping) setBusy(false);
  };
  const set = (name) => (event) => setWanted((all) => ({ ...all, [name]: event.target.value }));
  const pick = (name, label, values, texts) => html`<label class="field">${say(label)}
    <select value=${wanted[name]} onChange=${set(name)}>
      <option value="">${say(name === "language" ? "anyLanguage" : "asSet")}</option>
      ${(values || []).map((one) => html`<option key=${one} value=${one}>${texts?.(one) ?? one}</option>`)}
    </select></label>`;
  const names = new Intl.DisplayNames([say("tag")], { type: "language" });
  const toggle = (type) => setWanted((all) => ({ ...all, types: all.types.includes(type) ? all.types.filter((one) => one !== type) : [...all.types, type] }));
  const narrowed = Object.keys(NOTHING).filter((name) => String(wanted[name]) !== String(NOTHING[name])).length;
  const passages = found?.passages;
  return html`<section aria-label=${say("search")}>
    <form onSubmit=${search} role="search">
      <div class="line">
        <label class="unseen" for="words">${say("searchFor")}</label>
        <input id="words" type="search" value=${question} placeholder=${say("searchFor")} onInput=${(event) => setQuestion(event.target.value)} />
        <${Go} say=${say} name="search" ready=${question.trim()} busy=${busy} running=${running} />
      </div>
      <details onToggle=${choose}><summary>${say("filters")}${narrowed > 0 && ` (${narrowed})`}</summary>
        ${choices && html`<div class="fields">
          <label class="field">${say("pathFilter")} <input type="text" value=${wanted.path} placeholder="report*.pdf" onInput=${set("path")} /></label>
          <label class="field">${say("pagesFilter")} <input type="text" value=${wanted.pages} placeholder="3-10" onInput=${set("pages")} /></label>
          <label class="field">${say("since")} <input type="date" value=${wanted.since} onInput=${set("since")} /></label>
          <label class="field">${say("until")} <input type="date" value=${wanted.until} onInput=${set("until")} /></label>
          ${pick("language", "language", choices.languages, (one) => names.of(one))}
          <label class="field">${say("count")} <select value=${wanted.k} onChange=${set("k")}>
            <option value="">${say("asSet")}</option>
            ${["10", "20", "50", "100"].map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
          ${pick("retrieval", "retrieval", choices.retrieval, (one) => say({ hybrid: "hybrid", dense: "dense", keyword: "keyword" }[one]))}
          ${pick("rerank", "rerank", choices.rerank, (one) => say({ none: "noRerank", keyword: "byKeyword", learned: "byLearned", "cross-encoder": "byCrossEncoder", llm: "byModel" }[one]))}
          ${pick("expand", "expand", choices.expand, (one) => say({ none: "noExpand", "multi-query": "multiQuery", hyde: "hyde" }[one]))}
          <fieldset class="field types"><legend>${say("types")}</legend>
            ${choices.types.map((one) => html`<label key=${one}><input type="checkbox" checked=${wanted.types.includes(one)} onChange=${() => toggle(one)} /> ${say(`type ${one}`)}</label>`)}
          </fieldset></div>
          <p class="row"><button type="button" class="quiet" disabled=${!narrowed} onClick=${() => setWanted(NOTHING)}>${say("noFilters")}</button></p>`}
      </details>
    </form>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    <div role="status" class="quiet">${busy ? say("searching") : passages && (passages.length ? say(passages.length === 1 ? "passage" : "passages", { count: passages.length })
      : say(narrowed ? "nothingFiltered" : "nothing"))}</div>
    ${!found && !busy && !failed && html`<${Empty} say=${say} help=${!empty && "searchHelp"} toDocuments=${toDocuments} />`}
    ${found?.steps.length > 0 && html`<details><summary>${say("steps")} (${found.steps.length})</summary>
      <ol class="steps">${found.steps.map((one, number) => html`<li key=${number}><b>${one.name}</b> ${one.said}</li>`)}</ol></details>`}
    ${passages && passages.map((one, number) => html`<${Passage} key=${one.chunk_id} one=${one} show=${show} library=${library} number=${number + 1}>
      <${Ranks} say=${say} one=${one} /></${Passage}>`)}
  </section>`;
}

// Where each half of the search put a passage, and its own score there.
function Ranks({ say, one }) {
  const legs = Object.entries(one.ranks);
  return html`<details class="ranks"><summary>${say("score")} ${one.score.toFixed(3)}</summary>
    ${legs.length ? html`<ul>${legs.map(([leg, found]) => html`<li key=${leg}>${legName(say, leg)}${say("colon")}
      ${say("rankOf", { rank: found.rank, score: found.score.toFixed(3) })}</li>`)}</ul>` : html`<p>${say("oneLeg")}</p>`}</details>`;
}

function legName(say, leg) {
  const rewriting = /^rewriting (\d+)$/.exec(leg);
  return rewriting ? say("rewriting", { number: rewriting[1] }) : say(leg === "dense" ? "dense" : "keyword");
}

// "3-10", "7", "3-" as [first, last]; null for none, undefined for what cannot be read.
function readPages(given) {
  if (!given.trim()) return null;
  const found = /^\s*(\d{1,9})\s*(?:([-–—~])\s*(\d{1,9})?\s*)?$/.exec(given);
  if (!found) return undefined;
  const [, first, dash, last] = found;
  return [Number(first), last ? Number(last) : dash ? null : Number(first)];
}
