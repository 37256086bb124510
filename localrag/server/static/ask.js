import { html, useEffect, useRef, useState } from "./preact.js";
import { events } from "./api.js";
import { Passage } from "./passage.js";

let last = 0;

export function Ask({ say, library, show, empty, toDocuments }) {
  const [turns, setTurns] = useState([]);
  const [question, setQuestion] = useState("");
  const [mode, setMode] = useState("standard");
  const [busy, setBusy] = useState(false);
  const running = useRef(null);
  const [announced, setAnnounced] = useState("");
  const latest = useRef(null);

  useEffect(() => () => { running.current?.abort(); setTurns([]); }, [library]);

  async function ask() {
    const asked = question.trim();
    if (!asked || busy) return;
    const stopping = new AbortController();
    const history = turns.filter((turn) => turn.answer).map((turn) => (
      { question: turn.answer.question, answer: turn.answer.answer }));
    const turn = { id: (last += 1), asked, passages: null, steps: [], text: "", answer: null, waiting: null, error: "", stopped: false };
    const tell = (change) => { Object.assign(turn, change); setTurns((all) => all.map((one) => (one.id === turn.id ? { ...turn } : one))); };
    setTurns((all) => [...all, turn]);
    setQuestion("");
    running.current = stopping;
    setBusy(true);
    setAnnounced("");
    try {
      for await (const [name, data] of events("/api/ask", { question: asked, library, mode, history }, stopping.signal)) {
        if (name === "passages") tell({ passages: data.passages });
        else if (name === "waiting") tell({ waiting: data });
        else if (name === "step") tell({ waiting: null, steps: [...turn.steps, data] });
        else if (name === "text") tell({ waiting: null, text: turn.text + data.text });
        else if (name === "answer") { tell({ answer: data, passages: data.contexts }); setAnnounced(data.answer); }
        else if (name === "error") tell({ error: data.message });
      }
    } catch (error) {
      if (error.name === "AbortError") tell({ stopped: true });
      else tell({ error: error.status ? error.message : say("unreachable") });
    }
    if (!turn.answer && !turn.error && !turn.stopped) tell({ error: say("unreachable") });
    setBusy(false);
  }

  // What documents say is no markup of ours: a picture in it would be fetched by who shows it.
  const plainly = (text) => text.replace(/\s+/g, " ").replace(/[\\`*_[\]<>!#|~]/g, "\\$&");
  const save = () => {
    const parts = turns.filter((turn) => turn.answer).map(({ answer }) => [
      `## ${plainly(answer.question)}`, answer.answer.split(/\n+/).map(plainly).join("\n\n"),
      answer.citations.map((one, number) => `- \\[${one.marker}\\] ${plainly(answer.cited[number])}${say("colon")}${say("quotation", { quote: plainly(one.quote) })}`).join("\n"),
    ].filter(Boolean).join("\n\n"));
    const url = URL.createObjectURL(new Blob([`# localrag: ${library}\n\n${parts.join("\n\n")}\n`], { type: "text/markdown" }));
    const link = Object.assign(document.createElement("a"), { href: url, download: `localrag-${new Date().toISOString().slice(0, 10)}.md` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  };

  // To the question, below which its answer grows; not after it, so that it can be read meanwhile.
  useEffect(() => { latest.current?.lastElementChild?.scrollIntoView({ block: "start" }); }, [turns.length]);

  function typed(event) {
    // Enter while an input method composes chooses a candidate and must not send.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    ask();
  }

  return html`
    <section class="ask" aria-label=${say("ask")}>
      <div ref=${latest} class="turns" role="log" aria-live="off">
        ${turns.length === 0 && html`<div class="empty">
          <h2>${say("emptyTitle")}</h2>
          <p>${say(empty ? "noDocuments" : "emptyText")}</p>
          ${empty && html`<button class="main" onClick=${toDocuments}>${say("addFiles")}</button>`}
        </div>`}
        ${turns.map((turn) => html`<${Turn} key=${turn.id} say=${say} turn=${turn} show=${show} library=${library} />`)}
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
          ${turns.length > 0 && !busy && html`<button type="button" class="quiet" onClick=${() => setTurns([])}>${say("again")}</button>`}
          ${turns.some((turn) => turn.answer) && !busy && html`<button type="button" class="quiet" onClick=${save}>${say("save")}</button>`}
          <span class="space"></span>
          ${busy
            ? html`<button type="button" class="main" onClick=${() => running.current.abort()}>${say("stop")}</button>`
            : html`<button type="submit" class="main" disabled=${!question.trim()}>${say("send")}</button>`}
        </div>
      </form>
    </section>`;
}

function Turn({ say, turn, show, library }) {
  const [copied, setCopied] = useState(false);
  const { answer } = turn;
  const copy = async () => {
    const cited = answer.citations.map((one, number) => `[${one.marker}] ${answer.cited[number]}${say("colon")}${say("quotation", { quote: one.quote })}`);
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
    ${turn.stopped && html`<p class="quiet">${say("stopped")}</p>`}
    ${answer && answer.left_out.length > 0 && html`<p class="quiet">${say("leftOut", { count: answer.left_out.length })}</p>`}
    ${!answer && !turn.error && !turn.stopped && !turn.text && !turn.waiting && html`<p class="quiet">${say("reading")}</p>`}
    ${answer && answer.citations.length > 0 && html`<ul class="sources">
      ${answer.citations.map((one, number) => html`<li key=${one.marker + one.quote}><button class="source" onClick=${() => show({ ...answer.views[one.marker], quote: one })}>
        <b>[${one.marker}]</b> ${answer.cited[number]}</button> <q>${one.quote}</q></li>`)}</ul>`}
    ${answer && html`<p class="row"><button class="quiet" onClick=${copy}>${say(copied ? "copied" : "copy")}</button>
        <span class="quiet">${say("seconds", { seconds: answer.seconds.toFixed(1) })}</span></p>`}
    ${turn.passages && turn.passages.length > 0 && html`<details open=${!answer || !answer.grounded}>
      <summary>${say(answer && !answer.grounded ? "related" : "found")} (${turn.passages.length})</summary>
      ${turn.passages.map((one) => html`<${Passage} key=${one.chunk_id} one=${one} show=${show} library=${library} />`)}</details>`}
    ${turn.steps.length > 0 && html`<details><summary>${say("steps")} (${turn.steps.length})</summary>
      <ol class="steps">${turn.steps.map((one, number) => html`<li key=${number}><b>${one.name}</b> ${one.said}
        <span class="quiet">${say("seconds", { seconds: one.seconds.toFixed(2) })}</span></li>`)}</ol></details>`}
  </article>`;
}

// Texts of documents and models are text nodes: never HTML, no links, no pictures.
export function Sentence({ say, one, open }) {
  const parts = one.text.split(/([ \t]*[[【［][\d\s,，、–-]+[\]】］])/);
  return html`<span class=${`sentence ${one.mark}`} title=${say(one.mark)}>${parts.map((part, number) => {
    const markers = number % 2 ? one.markers.filter((marker) => part.includes(String(marker))) : [];
    return markers.length
      ? markers.map((marker) => html`<button key=${marker} class="marker" onClick=${() => open(marker)}
          aria-label=${`${say("sources")} ${marker}`}>${marker}</button>`)
      : part;
  })}</span>`;
}
