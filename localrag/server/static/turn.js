import { html, useEffect, useState } from "./preact.js";
import { Passage } from "./passage.js";

const ORDER = ["quoted", "supported", "partly", "not", "unchecked", "none"];

// The answer as text, with what each sentence is that no check has found to be right.
export const inWords = (answer, say) => answer.sentences.map((one) => {
  const text = one.parts.map((part) => (Array.isArray(part) ? ` ${part.map((number) => `[${answer.citations[number].marker}]`).join("")}` : part)).join("");
  const blank = text.match(/\s*$/)[0];
  const doubtful = one.mark && one.mark !== "quoted" && one.mark !== "supported";
  return doubtful ? `${text.slice(0, text.length - blank.length)} (${say(one.mark)})${blank}` : text;
}).join("");

export function Turn({ say, turn, show, library, view, retry }) {
  const [copied, setCopied] = useState(false);
  const { answer, error, stopped } = turn;
  const copy = async () => {
    const cited = answer.citations.map((one, number) => `[${one.marker}] ${answer.cited[number]}${say("colon")}${say("quotation", { quote: one.quote })}`);
    await navigator.clipboard.writeText([inWords(answer, say), "", ...cited].join("\n"));
    setCopied(true);
    setTimeout(() => setCopied(false), 4000);
  };
  const running = !answer && !error && !stopped;
  const [, tick] = useState(0);
  const counting = running && !turn.text && turn.cost?.most !== undefined;
  useEffect(() => {
    const timer = counting && setInterval(() => tick((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, [counting]);
  const open = (number) => show({ ...answer.views[number], quote: answer.citations[number] });
  const isOpen = (number) => {
    const place = answer.views[number];
    return Boolean(view) && view.document === place.document && view.start === place.start && view.end === place.end;
  };
  const marks = ORDER.filter((mark) => answer?.sentences.some((one) => one.mark === mark));
  return html`<article class="turn">
    <h2 class="asked">${turn.asked}</h2>
    ${answer && html`<p class="answer">${answer.sentences.map((one, number) => (
      html`<${Sentence} key=${number} say=${say} one=${one} citations=${answer.citations} open=${open} isOpen=${isOpen} />`))}</p>`}
    ${!answer && turn.text && html`<p class=${running ? "answer writing" : "answer"} aria-busy=${running}>${turn.text}</p>`}
    ${running && !turn.text && html`<p class="state writing">${now(say, turn)}</p>`}
    ${error && html`<p class="failed" role="alert">${error}</p>`}
    ${stopped && html`<p class="state">${say("stopped")}</p>`}
    ${turn.unkept && html`<p class="state">${turn.unkept}</p>`}
    ${answer && answer.left_out.length > 0 && html`<p class="state">${say("leftOut", { count: answer.left_out.length })}</p>`}
    ${answer && answer.sentences.length > 0 && answer.sentences.every((one) => one.mark === "not") && html`<p class="state">${say("allUnsupported")}</p>`}
    ${answer && answer.citations.length > 0 && html`<ol class="sources" aria-label=${say("sources")}>
      ${answer.citations.map((one, number) => html`<li key=${one.marker + one.quote} class=${isOpen(number) ? "open" : ""}><button class="source" onClick=${() => open(number)}>
        <b>[${one.marker}]</b> ${answer.cited[number]}</button> <q>${one.quote}</q></li>`)}</ol>`}
    ${answer?.not_found.map((one) => html`<${NotFound} key=${one.question} say=${say} one=${one} part=${one.question !== answer.question}
      show=${show} retry=${retry} />`)}
    ${answer && html`<div class="row under">
      <button class="quiet" onClick=${copy}>${say(copied ? "copied" : "copy")}</button>
      <span class="quiet">${say("seconds", { seconds: answer.seconds.toFixed(1) })}</span><span class="space"></span>
      ${marks.length > 0 && html`<span class="legend" aria-hidden="true">${marks.map((mark) => html`<span key=${mark}>
        <span class=${`sample ${mark}`}>${"\u00a0".repeat(5)}</span> ${say(mark)}</span>`)}</span>`}
    </div>`}
    ${turn.passages && turn.passages.length > 0 && html`<details class="more" open=${!answer || !(answer.grounded || answer.not_found.length)}>
      <summary>${say(answer && !answer.grounded ? "related" : "found")} (${turn.passages.length})</summary>
      ${turn.passages.map((one) => html`<${Passage} key=${one.chunk_id} one=${one} show=${show} library=${library} />`)}</details>`}
    ${turn.steps.length > 0 && html`<details class="more"><summary>${say("steps")} (${turn.steps.length})</summary>
      <ol class="steps">${turn.steps.map((one, number) => html`<li key=${number}><b>${one.name}</b> ${one.said}
        <span class="quiet">${say("seconds", { seconds: one.seconds.toFixed(2) })}</span></li>`)}</ol></details>`}
  </article>`;
}

// How near the documents come, and what else could be asked.
function NotFound({ say, one, part, show, retry }) {
  const { closest, suggestions } = one;
  return html`<div class="not-found">
    ${part && html`<p><b>${say("part", one)}</b></p>`}
    <p class="quiet">${one.looked_for}</p>
    ${closest && html`<p>${say("closest")}${say("colon")}<button class="source" onClick=${() => show({ ...closest.view, quote: closest })}>${closest.cited}</button> <q>${closest.quote}</q></p>`}
    <p>${one.reason}</p>
    ${suggestions.length > 0 && html`<p>${say("askInstead")}</p><ul>${suggestions.map((each) => html`<li key=${each.question}>
      <button disabled=${!retry} onClick=${() => retry(each.question)}>${each.question}</button> <span class="quiet">${each.why}</span></li>`)}</ul>`}
  </div>`;
}

// What is being done while there is nothing to read yet; Self-RAG has a step for every passage.
function now(say, { waiting, loading, passages, followsUp, steps, cost }) {
  if (waiting) return say("waiting", waiting);
  const doing = say(loading ? "loading" : passages ? "reading" : followsUp ? "following" : "finding") + toCome(say, cost);
  const done = steps.filter((step) => step.kind !== "cost");
  const last = done.length > 1 && done.at(-1);
  return last ? `${doing} ${last.name}${say("colon")}${last.said}` : doing;
}

// Seconds of reading that have passed, that are spared, and that are to come; nothing once these are over.
function toCome(say, cost) {
  const passed = cost ? (performance.now() - cost.since) / 1000 : 0;
  const most = Math.round(cost?.most - passed);
  if (!(most > 0)) return "";
  const least = Math.round(cost.least - passed);
  const numbers = { read: Math.round(cost.read + passed), kept: Math.round(cost.kept), least, most };
  return ` ${say(least > 0 && least < most ? "toCome" : "atMost", numbers)}`;
}

// Texts of documents and models are text nodes: never HTML, no links, no pictures.
export function Sentence({ say, one, citations, open, isOpen = () => false }) {
  if (!one.mark) return one.parts;  // a refusal
  const cited = one.parts.filter(Array.isArray).flat();
  // A click anywhere in it, for the mouse; the keyboard has the numbers.
  const click = (event) => {
    if (cited.length && !event.target.closest("button") && getSelection().isCollapsed) open(cited[0]);
  };
  const blank = one.parts.at(-1).match(/\s*$/)[0];
  const last = one.parts.length - 1;
  const texts = one.parts.map((part, at) => (at === last ? part.slice(0, part.length - blank.length) : part));
  // No line begins with a number, nor with the full stop behind it.
  const near = (part, where) => (typeof part === "string" ? part.match(where)[0] : "");
  const before = texts.map((part, at) => (Array.isArray(texts[at + 1]) ? near(part, /[\u3040-\u9fff]?$/) : ""));
  const behind = texts.map((part, at) => (Array.isArray(texts[at - 1]) ? near(part, /^[.,;:!?。，；：！？、”’）)]*/) : ""));
  return html`<span class=${`sentence ${one.mark}${cited.length ? " cited" : ""}${cited.some(isOpen) ? " open" : ""}`}
      title=${say(one.mark)} onClick=${click}>${texts.map((part, at) => (Array.isArray(part)
    ? html`<span class="together" key=${at}>${before[at - 1]}${part.map((number) => html`<button key=${number} class="marker" onClick=${() => open(number)} aria-expanded=${isOpen(number)}
        aria-label=${say("sourceNumber", { number: citations[number].marker })}>${citations[number].marker}</button>`)}${behind[at + 1]}</span>`
    : part.slice(behind[at].length, part.length - before[at].length)))}${one.mark !== "quoted" && one.mark !== "supported" && html`<span class="unseen"> (${say(one.mark)})</span>`}</span>${blank}`;
}
