import { html, useEffect, useRef, useState } from "./preact.js";
import { events } from "./api.js";
import { Passage } from "./passage.js";

export function Ask({ say, library, show, empty, toDocuments }) {
  const [turns, setTurns] = useState([]);
  const [question, setQuestion] = useState("");
  const [mode, setMode] = useState("standard");
  const [running, setRunning] = useState(null);
  const [announced, setAnnounced] = useState("");
  const end = useRef(null);

  useEffect(() => { setTurns([]); }, [library]);

  async function ask() {
    const asked = question.trim();
    if (!asked || running) return;
    const stopping = new AbortController();
    const history = turns.filter((turn) => turn.answer).map((turn) => (
      { question: turn.answer.question, answer: turn.answer.answer }));
    const turn = { asked, passages: null, steps: [], text: "", answer: null, waiting: null, error: "", stopped: false };
    const tell = (change) => { Object.assign(turn, change); setTurns((all) => [...all.slice(0, -1), { ...turn }]); };
    setTurns((all) => [...all, turn]);
    setQuestion("");
    setRunning(stopping);
    setAnnounced("");
    try {
      for await (const [name, data] of events("/api/ask", { question: asked, library, mode, history }, stopping.signal)) {
        if (name === "passages") tell({ passages: data.passages });
        else if (name === "waiting") tell({ waiting: data });
        else if (name === "step") tell({ waiting: null, steps: [...turn.steps, data] });
        else if (name === "text") tell({ waiting: null, text: turn.text + data.text });
        else if (name === "answer") { tell({ answer: data, passages: data.contexts }); setAnnounced(data.answer); }
        else if (name === "error") { tell({ error: data.message }); setAnnounced(data.message); }
      }
    } catch (error) {
      if (error.name === "AbortError") tell({ stopped: true });
      else tell({ error: error.message });
    }
    setRunning(null);
  }

  useEffect(() => { end.current?.scrollIntoView({ block: "nearest" }); }, [turns]);

  function typed(event) {
    // Enter while an input method composes chooses a candidate and must not send.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    ask();
  }

  return html`
    <section class="ask" aria-label=${say("ask")}>
      <div class="turns" role="log" aria-live="off">
        ${turns.length === 0 && html`<div class="empty">
          <h1>${say("emptyTitle")}</h1>
          <p>${say(empty ? "noDocuments" : "emptyText")}</p>
          ${empty && html`<button class="main" onClick=${toDocuments}>${say("addFiles")}</button>`}
        </div>`}
        ${turns.map((turn, number) => html`<${Turn} key=${number} say=${say} turn=${turn} show=${show} library=${library} />`)}
        <div ref=${end}></div>
      </div>
      <div class="unseen" role="status" aria-live="polite">${announced}</div>
      <form onSubmit=${(event) => { event.preventDefault(); ask(); }}>
        <label class="unseen" for="question">${say("question")}</label>
        <textarea id="question" rows="2" placeholder=${say("placeholder")} value=${question}
          onInput=${(event) => setQuestion(event.target.value)} onKeyDown=${typed}></textarea>
        <div class="row">
          <label class="quiet">${say("mode")} <select value=${mode} onChange=${(event) => setMode(event.target.value)}>
            <option value="standard">${say("standard")}</option><option value="self-rag">${say("selfRag")}</option>
          </select></label>
          ${turns.length > 0 && !running && html`<button type="button" class="quiet" onClick=${() => setTurns([])}>${say("again")}</button>`}
          <span class="space"></span>
          ${running
            ? html`<button type="button" class="main" onClick=${() => running.abort()}>${say("stop")}</button>`
            : html`<button type="submit" class="main" disabled=${!question.trim()}>${say("send")}</button>`}
        </div>
      </form>
    </section>`;
}

function Turn({ say, turn, show, library }) {
  const [copied, setCopied] = useState(false);
  const { answer } = turn;
  const copy = async () => {
    const cited = answer.citations.map((one) => `[${one.marker}] ${name(one.source)}, ${say(one.unit || "page")} ${one.page}: “${one.quote}”`);
    await navigator.clipboard.writeText([answer.answer, "", ...cited].join("\n"));
    setCopied(true);
  };
  return html`<article class="turn">
    <h2 class="asked">${turn.asked}</h2>
    ${turn.waiting && html`<p class="quiet">${say("waiting", turn.waiting)}</p>`}
    ${answer
      ? html`<p class="answer">${answer.sentences.map((one, number) => html`<${Sentence} key=${number} say=${say} one=${one}
          open=${(marker) => show({ ...answer.views[marker], quote: answer.citations.find((each) => each.marker === marker) })} />`)}</p>`
      : html`<p class="answer writing" aria-busy=${!turn.error && !turn.stopped}>${turn.text}</p>`}
    ${turn.error && html`<p class="failed" role="alert">${turn.error}</p>`}
    ${!answer && !turn.error && !turn.stopped && !turn.text && html`<p class="quiet">${say("reading")}</p>`}
    ${answer && answer.citations.length > 0 && html`<ul class="sources">
      ${answer.citations.map((one) => html`<li key=${one.marker + one.quote}><button class="source" onClick=${() => show({ ...answer.views[one.marker], quote: one })}>
        <b>[${one.marker}]</b> ${name(one.source)}, ${say(one.unit || "page")} ${one.page}</button> <q>${one.quote}</q></li>`)}</ul>
      <p class="row"><button class="quiet" onClick=${copy}>${say(copied ? "copied" : "copy")}</button>
        <span class="quiet">${say("seconds", { seconds: answer.seconds.toFixed(1) })}</span></p>`}
    ${turn.passages && turn.passages.length > 0 && html`<details open=${!answer || !answer.grounded}>
      <summary>${say(answer && !answer.grounded ? "related" : "found")} (${turn.passages.length})</summary>
      ${turn.passages.map((one) => html`<${Passage} key=${one.chunk_id} say=${say} one=${one} show=${show} library=${library} />`)}</details>`}
    ${turn.steps.length > 0 && html`<details><summary>${say("steps")} (${turn.steps.length})</summary>
      <ol class="steps">${turn.steps.map((one, number) => html`<li key=${number}><b>${one.name}</b> ${one.said}
        <span class="quiet">${say("seconds", { seconds: one.seconds.toFixed(2) })}</span></li>`)}</ol></details>`}
  </article>`;
}

// Texts of documents and models are text nodes: never HTML, no links, no pictures.
function Sentence({ say, one, open }) {
  const parts = one.text.split(/([ \t]*[[【［][\d\s,，、–-]+[\]】］])/);
  return html`<span class=${`sentence ${one.mark}`} title=${say(one.mark)}>${parts.map((part, number) => {
    const markers = number % 2 ? one.markers.filter((marker) => part.includes(String(marker))) : [];
    return markers.length
      ? markers.map((marker) => html`<button key=${marker} class="marker" onClick=${() => open(marker)}
          aria-label=${`${say("sources")} ${marker}`}>${marker}</button>`)
      : part;
  })}</span>`;
}

export function name(source) {
  return source.split(/[\\/]/).pop();
}
