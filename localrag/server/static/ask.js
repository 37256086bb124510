import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { events } from "./api.js";
import { asMarkdown, asPage, download } from "./exporting.js";
import { History } from "./history.js";
import { useKeys } from "./keys.js";
import { Turn } from "./turn.js";

let last = 0;
const fresh = (asked) => ({ id: (last += 1), asked, passages: null, steps: [], cost: null, text: "", answer: null, waiting: null, loading: false, error: "", stopped: false, unkept: "" });
const told = ({ asked, answer }) => ({ ...fresh(asked), answer, passages: answer.contexts, steps: answer.steps });

// As what is kept in the library: on what it cites, and where a sentence cites nothing on all that was read.
const rests = ({ answer, passages }, id) => (answer?.views.some((one) => one.document === id)
  || ((!answer || answer.sentences.some((one) => !one.parts.some(Array.isArray))) && passages?.some((one) => one.document_id === id)));

export function Ask({ say, language, library, show, view, empty, preset, shown, toDocuments, may, user }) {
  const [turns, setTurns] = useState([]);
  const [question, setQuestion] = useState("");
  const [chosen, setChosen] = useState("");
  const [busy, setBusy] = useState(false);
  const running = useRef(null);
  const [announced, setAnnounced] = useState("");
  const latest = useRef(null);
  const field = useRef(null);
  const at = useRef(-1);
  const [looking, setLooking] = useState(false);
  const [kept, setKept] = useState("");  // the conversation in the library that this one is
  const [forgotten, setForgotten] = useState("");  // the document with which answers went from here
  const mode = chosen || preset;

  const begin = () => { running.current?.abort(); setTurns([]); setKept(""); setForgotten(""); setAnnounced(""); at.current = -1; };
  useEffect(() => begin, [library]);
  useEffect(() => {  // what was written from a document goes with it, here as in the library
    const removed = (event) => setTurns((all) => {
      const { id } = event.detail;
      const gone = all.findIndex((turn) => rests(turn, id));
      const others = (gone < 0 ? all : all.slice(0, gone)).map((turn) => (
        { ...turn, passages: turn.passages && turn.passages.filter((one) => one.document_id !== id) }));
      if (gone < 0) return others;
      if (running.current && all.slice(gone).some((turn) => turn.id === last)) running.current.abort();
      setKept("");
      setForgotten(event.detail.name);
      return others;
    });
    addEventListener("document-removed", removed);
    return () => removeEventListener("document-removed", removed);
  }, []);
  const resume = (opened) => {
    begin();
    setTurns(opened.answers.map(told));
    setKept(opened.conversation);
    setLooking(false);
  };

  async function ask(asked = question.trim()) {
    if (!asked || busy) return;
    const stopping = new AbortController();
    const history = turns.filter((turn) => turn.answer).map((turn) => (
      { question: turn.answer.question, answer: turn.answer.answer }));
    const turn = { ...fresh(asked), followsUp: history.length > 0 };
    const tell = (change) => { Object.assign(turn, change); setTurns((all) => all.map((one) => (one.id === turn.id ? { ...turn } : one))); };
    setTurns((all) => [...all, turn]);
    setForgotten("");
    if (asked === question.trim()) setQuestion("");
    running.current = stopping;
    setBusy(true);
    setAnnounced("");
    try {
      for await (const [name, data] of events("/api/ask", { question: asked, library, mode, history, conversation: kept }, stopping.signal)) {
        if (name === "loading") tell({ loading: true });
        else if (name === "passages") tell({ passages: data.passages });
        else if (name === "waiting") tell({ waiting: data });
        else if (name === "step") tell({ waiting: null, loading: false, steps: [...turn.steps, data], ...(data.kind === "cost" && { cost: { ...data.values, since: performance.now() } }) });
        else if (name === "text") tell({ waiting: null, loading: false, text: turn.text + data.text });
        else if (name === "answer") { tell({ answer: data, passages: data.contexts, steps: data.steps }); setAnnounced(data.answer); }
        else if (name === "kept") { setKept(data.conversation); tell({ unkept: data.conversation ? "" : data.reason || say("unkept") }); }
        else if (name === "error") tell({ error: data.message });
      }
    } catch (error) {
      if (error.name === "AbortError") tell({ stopped: true });
      else tell({ error: error.status ? error.message : say("unreachable") });
    }
    if (!turn.answer && !turn.error && !turn.stopped) tell({ error: say("unreachable") });
    setBusy(false);
  }

  const answered = turns.filter((turn) => turn.answer);
  const save = (ending) => {
    const about = { library, say, language };
    if (ending === "md") download(asMarkdown(answered, about), "text/markdown", ending);
    else download(asPage(answered, about), "text/html", ending);
  };

  // To the question, below which its answer grows; not after it, so that it can be read meanwhile.
  useEffect(() => { latest.current?.lastElementChild?.scrollIntoView({ block: "start" }); }, [turns.length]);
  // The button that had the focus is gone once the answer is there.
  useLayoutEffect(() => {
    if (!busy && turns.length && document.activeElement === document.body) field.current.focus({ preventScroll: true });
  }, [busy]);

  const step = (by) => () => {
    const markers = [...latest.current.querySelectorAll(".marker")];
    if (!markers.length) return;
    const now = markers.indexOf(document.activeElement);
    at.current = (now >= 0 ? now + by : at.current < 0 && by < 0 ? -1 : at.current + by);
    at.current = Math.min(Math.max(at.current, 0), markers.length - 1);
    markers[at.current].focus();
    if (view) markers[at.current].click();
  };
  useKeys(shown ? { j: step(1), k: step(-1), "/": () => field.current.focus() } : {});

  function typed(event) {
    // Enter while an input method composes chooses a candidate and must not send.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    ask();
  }

  return html`
    <section class="ask" aria-label=${say("ask")}>
      <div class="row tools">
        <button class="quiet" onClick=${() => setLooking(true)}>${say("history")}</button>
        ${turns.length > 0 && html`<button class="quiet" disabled=${busy} onClick=${begin}>${say("again")}</button>`}
        <span class="space"></span>
        ${answered.length > 0 && html`<span class="saving"><span class="quiet" id="save">${say("saveAs")}</span>
          <button class="quiet" aria-describedby="save" onClick=${() => save("md")}>Markdown</button>
          <button class="quiet" aria-describedby="save" onClick=${() => save("html")}>HTML</button></span>`}
      </div>
      <div ref=${latest} class="turns" role="log" aria-live="off">
        ${turns.length === 0 && html`<div class="empty">
          <h2>${say("emptyTitle")}</h2>
          <p>${say(!empty ? "emptyText" : toDocuments ? "noDocuments" : "stillEmpty")}</p>
          ${empty && toDocuments && html`<button class="main" onClick=${toDocuments}>${say("addFiles")}</button>`}
        </div>`}
        ${turns.map((turn) => html`<${Turn} key=${turn.id} say=${say} turn=${turn} show=${show} view=${view} library=${library} retry=${busy ? null : ask} />`)}
        ${forgotten && html`<p class="state">${say("removedAnswers", { name: forgotten })}</p>`}
      </div>
      <div class="unseen" role="status" aria-live="polite">${announced}</div>
      <form onSubmit=${(event) => { event.preventDefault(); ask(); }}>
        <label class="unseen" for="question">${say("question")}</label>
        <textarea id="question" ref=${field} rows="2" placeholder=${say("placeholder")} value=${question}
          onInput=${(event) => setQuestion(event.target.value)} onKeyDown=${typed}></textarea>
        <div class="row">
          <label class="quiet">${say("mode")} <select value=${mode} onChange=${(event) => setChosen(event.target.value)}>
            <option value="standard">${say("standard")}</option><option value="self-rag">${say("selfRag")}</option>
          </select></label>
          <span class="space"></span>
          ${busy
            ? html`<button type="button" class="main" onClick=${() => running.current.abort()}>${say("stop")}</button>`
            : html`<button type="submit" class="main" disabled=${!question.trim()}>${say("send")}</button>`}
        </div>
      </form>
      ${looking && html`<${History} say=${say} library=${library} may=${may} user=${user} close=${() => setLooking(false)} open=${resume}
        forgotten=${(key) => { if (kept && (!key || key === kept)) begin(); }} />`}
    </section>`;
}
