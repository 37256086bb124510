import { html, useEffect, useState } from "./preact.js";
import { call } from "./api.js";
import { Count, patternsOf, useCount, Where } from "./choosing.js";
import { Empty, Go, State, useWork } from "./work.js";

const KINDS = ["", "text", "number", "money", "date", "yes/no", "one of"];
const STATES = ["found", "not stated", "doubtful", "not read"];
const FILES = ["xlsx", "csv", "html", "md"];
const STEP = 200;  // rows drawn at a time
const ALL = { folder: "", name: "", types: [], words: "" };
const EMPTY = { question: "", kind: "", choices: "" };

// The answers of a list, as a person writes them: with strokes, or commas of either kind.
const choicesOf = (given) => given.split(/[|｜,，、]/).map((choice) => choice.trim()).filter(Boolean);
const columnOf = ({ question, kind, choices }) => ({
  question: question.trim(), kind: kind || null, choices: kind === "one of" ? choicesOf(choices) : [],
});
const typed = ({ question, kind, choices }) => ({ question, kind: kind || "", choices: (choices || []).join(" | ") });

export function TablePage({ say, language, library, show, view, empty, toDocuments, may, shown }) {
  const [columns, setColumns] = useState([EMPTY]);
  const [saved, setSaved] = useState("");  // the name of the table that is looked at
  const [name, setName] = useState("");
  const hear = {
    begun: (_, data) => ({ ...data, filled: data.rows.map(() => []), totals: null, file: "" }),
    cells: filledWith,
    table: (grid, data) => ({ ...grid, totals: data.columns, file: data.name, final: data.final, left: data.left }),
  };
  const stopped = async (body, again) => {  // what was read is kept, and is the table for now
    await again({ ...body, kept_only: true });
    work.asked.current = body;
    work.setSaid(say("tableStopped"));
  };
  const work = useWork({ say, library, shown, path: "/api/tables", all: ALL, hear, stopped });
  const { offered, load, chosen, setChosen, set, made: grid, busy, run, setFailed } = work;
  useEffect(() => { setSaved(""); }, [library]);
  const documents = { library, types: chosen.types, words: chosen.words.trim(), patterns: patternsOf(chosen) };
  const count = useCount(shown && library && !empty, documents);

  const begin = (event) => {
    event.preventDefault();
    if (busy) return;
    setSaved("");
    run({ ...documents, columns: columns.filter((column) => column.question.trim()).map(columnOf) });
  };
  const look = (one) => { setSaved(one.name); setName(one.name); setColumns(one.columns.map(typed)); run({ library, saved: one.name }); };
  const keep = async () => {
    try {
      const body = work.asked.current;  // what the grid shows, whatever is typed since
      await call(`/api/tables/saved/${encodeURIComponent(name.trim())}`, { method: "POST", body });
      work.setSaid(say("tableSaved", { name: name.trim() }));
      load();
    } catch (error) { setFailed(error.message); }
  };
  const forget = async (one) => {
    if (!confirm(say("tableForget", { name: one.name }))) return;
    try { await call(`/api/tables/saved/${encodeURIComponent(one.name)}?${new URLSearchParams({ library })}`, { method: "DELETE" }); load(); } catch (error) { setFailed(error.message); }
  };

  const change = (at, field) => (event) => setColumns((all) => all.map((one, number) => (number === at ? { ...one, [field]: event.target.value } : one)));
  const toggle = (type) => setChosen((all) => ({ ...all, types: all.types.includes(type) ? all.types.filter((one) => one !== type) : [...all.types, type] }));
  const ready = columns.some((column) => column.question.trim()) && columns.every((column) => column.kind !== "one of" || !column.question.trim() || choicesOf(column.choices).length > 1);
  if (empty) return html`<section class="table" aria-label=${say("table")}><${Empty} say=${say} toDocuments=${toDocuments} /></section>`;
  return html`<section class="table" aria-label=${say("table")}>
    ${offered?.saved.length > 0 && html`<div class="saved"><h2>${say("savedTables")}</h2><ul class="documents">${offered.saved.map((one) => html`<li key=${one.name} class="row">
      <button class="source" disabled=${busy} onClick=${() => look(one)} aria-current=${saved === one.name ? "true" : undefined}>${one.name}</button>
      <span class="quiet">${one.columns.map((column) => column.question).join(" · ")}</span><span class="space"></span>
      ${may("editor") && html`<button class="quiet" onClick=${() => forget(one)} aria-label=${say("removeName", { name: one.name })}>${say("remove")}</button>`}</li>`)}</ul></div>`}
    <form onSubmit=${begin}>
      <h2>${say("whichDocuments")}</h2>
      <div class="fields wide">
        <${Where} say=${say} folders=${offered?.folders} chosen=${chosen} set=${set} />
        <label class="field">${say("wordsIn")} <input type="text" value=${chosen.words} onInput=${set("words")} /></label>
        ${offered?.types.length > 1 && html`<fieldset class="field types"><legend>${say("types")}</legend>
          ${offered.types.map((one) => html`<label key=${one.name}><input type="checkbox" checked=${chosen.types.includes(one.name)} onChange=${() => toggle(one.name)} /> ${say(`type ${one.name}`)} (${one.count})</label>`)}</fieldset>`}
      </div>
      <${Count} say=${say} count=${count} />
      <h2>${say("whatToAsk")}</h2>
      <ol class="asking">${columns.map((column, at) => html`<li key=${at}>
        <div class="line">
          <label class="unseen" for=${`column-${at}`}>${say("columnQuestion", { number: at + 1 })}</label>
          <input id=${`column-${at}`} type="search" maxlength="1999" value=${column.question} placeholder=${say("columnExample")} onInput=${change(at, "question")} />
          <label class="unseen" for=${`kind-${at}`}>${say("columnKind", { number: at + 1 })}</label>
          <select id=${`kind-${at}`} value=${column.kind} onChange=${change(at, "kind")}>
            ${KINDS.map((kind) => html`<option key=${kind} value=${kind}>${say(`kind ${kind}`)}</option>`)}</select>
          ${columns.length > 1 && html`<button type="button" class="quiet" aria-label=${say("columnRemove", { number: at + 1 })}
            onClick=${() => setColumns((all) => all.filter((_, number) => number !== at))}>${say("remove")}</button>`}
        </div>
        ${column.kind === "one of" && html`<label class="field">${say("columnChoices")} <input type="text" value=${column.choices} placeholder=${say("choicesExample")} onInput=${change(at, "choices")} /></label>`}
      </li>`)}</ol>
      <div class="row">
        <button type="button" disabled=${columns.length >= 50} onClick=${() => setColumns((all) => [...all, EMPTY])}>${say("columnAdd")}</button>
        <span class="space"></span>
        <${Go} say=${say} name="tableRun" ready=${ready && count?.count} busy=${busy} running=${work.running} />
      </div>
    </form>
    <${State} work=${work} />
    ${grid && busy && html`<p class="row"><progress max=${grid.cells || 1} value=${grid.cells - grid.left} aria-label=${say("cells")}></progress>
      <span class="quiet">${say("cellsLeft", { left: grid.left, cells: grid.cells })}</span></p>`}
    ${grid && !busy && grid.left > 0 && html`<p class="row"><button class="main" onClick=${work.goOn}>${say("goOn")}</button></p>`}
    ${grid && html`<${Grid} key=${grid.rows.length + grid.columns.join("\n")} say=${say} language=${language} grid=${grid} busy=${busy} show=${show} view=${view} />`}
    ${grid && !busy && may("editor") && ready && html`<form class="line" onSubmit=${(event) => { event.preventDefault(); keep(); }}>
      <label class="unseen" for="table-name">${say("tableName")}</label>
      <input id="table-name" type="search" maxlength="100" value=${name} placeholder=${say("tableName")} onInput=${(event) => setName(event.target.value)} />
      <button type="submit" disabled=${!name.trim() || Boolean(saved)}>${say("tableSave")}</button></form>
      <p class="quiet">${say("tableSaveHow")}</p>`}
  </section>`;
}

function filledWith(grid, { cells, left }) {
  const filled = [...grid.filled];
  for (const cell of cells) {
    filled[cell.row] = [...filled[cell.row]];
    filled[cell.row][cell.column] = cell;
  }
  return { ...grid, filled, left };
}

// Numbers by their size, all else by its text; what has no value comes last, whichever way.
function order(grid, sorted) {
  const rows = grid.rows.map((row, number) => number);
  if (!sorted) return rows;
  const [column, down] = sorted;
  const key = (row) => {
    if (column < 0) return grid.rows[row].source;
    const cell = grid.filled[row][column];
    if (!cell || (cell.state !== "found" && cell.state !== "doubtful")) return null;
    return cell.value?.number ?? cell.value?.text ?? cell.text;
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  return rows.sort((one, other) => {
    const a = key(one), b = key(other);
    if (a === null || b === null) return (a === null) - (b === null) || one - other;
    return (down ? compare(b, a) : compare(a, b)) || one - other;
  });
}

function Grid({ say, language, grid, busy, show, view }) {
  const [sorted, setSorted] = useState(null);
  const [words, setWords] = useState("");
  const [state, setState] = useState("");
  const [most, setMost] = useState(STEP);
  const sought = words.trim().toLowerCase();
  const fits = (row) => {
    const cells = grid.filled[row];
    if (state && !cells.some((cell) => cell?.state === state) && !(state === "not read" && cells.filter(Boolean).length < grid.columns.length)) return false;
    return !sought || grid.rows[row].source.toLowerCase().includes(sought) || cells.some((cell) => cell?.text.toLowerCase().includes(sought));
  };
  const rows = order(grid, sorted).filter(fits);
  const sort = (column) => setSorted((now) => (!now || now[0] !== column ? [column, false] : now[1] ? null : [column, true]));
  const head = (column, text) => {
    const way = sorted?.[0] === column ? (sorted[1] ? "descending" : "ascending") : "none";
    return html`<th key=${column} scope="col" aria-sort=${way}><button class="source" onClick=${() => sort(column)}>${text}${way === "none" ? "" : way === "ascending" ? " ▲" : " ▼"}</button></th>`;
  };
  return html`<div class="grid">
    <div class="line">
      <label class="unseen" for="rows-with">${say("rowsWith")}</label>
      <input id="rows-with" type="search" value=${words} placeholder=${say("rowsWith")} onInput=${(event) => setWords(event.target.value)} />
      <label class="unseen" for="rows-state">${say("rowsState")}</label>
      <select id="rows-state" value=${state} onChange=${(event) => setState(event.target.value)}><option value="">${say("anyState")}</option>
        ${STATES.map((one) => html`<option key=${one} value=${one}>${say(`state ${one}`)}</option>`)}</select>
    </div>
    <p class="quiet" role="status">${rows.length < grid.rows.length && say("rowsShown", { count: rows.length, all: grid.rows.length })}</p>
    <div class="scrolls" tabindex="0" role="region" aria-label=${say("cells")}><table class="cells" aria-busy=${busy}>
      <thead><tr>${head(-1, say("file"))}${grid.columns.map((column, at) => head(at, column))}</tr></thead>
      <tbody>${rows.slice(0, most).map((row) => html`<tr key=${grid.rows[row].document}><th scope="row">${grid.rows[row].source}</th>
        ${grid.columns.map((_, at) => html`<${Cell} key=${at} say=${say} cell=${grid.filled[row][at]} busy=${busy} show=${show} view=${view} />`)}</tr>`)}</tbody>
      ${grid.totals && html`<tfoot><tr><th scope="row">${say("totals")}</th>${grid.totals.map((column, at) => html`<td key=${at}>${column.totals.map((line, number) => html`<div key=${number}>${line}</div>`)}</td>`)}</tr></tfoot>`}
    </table></div>
    ${rows.length > most && html`<p class="row"><button onClick=${() => setMost(most + STEP)}>${say("more")}</button></p>`}
    ${grid.file && html`<p class="row"><span class="quiet">${say("saveAs")}</span>${FILES.map((ending) => html`<a key=${ending}
      href=${`/api/tables/${grid.file}.${ending}?language=${language}`} download=${`table.${ending}`}>${say(`file ${ending}`)}</a>`)}</p>`}
  </div>`;
}

function Cell({ say, cell, busy, show, view }) {
  if (!cell) return html`<td class="unread">${busy ? "…" : `(${say("state not read")})`}</td>`;
  const place = cell.citations.find((one) => one.view);
  const open = place && view && view.document === place.view.document && view.start === place.view.start;
  const why = [cell.why, place && `${place.cited}${say("colon")}${say("quotation", place)}`].filter(Boolean).join("\n");
  const name = `cell ${cell.state.replace(" ", "-")}${open ? " open" : ""}`;
  return html`<td class=${name} title=${why}>${place
    ? html`<button class="source" onClick=${() => show({ ...place.view, quote: place })} aria-expanded=${Boolean(open)}>${cell.text}</button>`
    : cell.text}</td>`;
}
