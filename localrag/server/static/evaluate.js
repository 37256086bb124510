import { html, useEffect, useRef, useState } from "./preact.js";
import { events } from "./api.js";
import { Go } from "./work.js";

const EXAMPLE = '{"question": "When was the glass house opened?", "ideal_answer": "In 1907."}';

export function Evaluate({ say, language, library }) {
  const [file, setFile] = useState(null);
  const [questions, setQuestions] = useState("10");
  const [judged, setJudged] = useState(false);
  const [progress, setProgress] = useState(null);
  const [notes, setNotes] = useState([]);
  const [report, setReport] = useState("");
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const running = useRef(null);
  useEffect(() => () => { running.current?.abort(); setReport(""); }, [library]);

  const evaluate = async (event) => {
    event.preventDefault();
    if (!file || busy) return;
    const stopping = running.current = new AbortController();
    setBusy(true);
    setFailed("");
    setNotes([]);
    setReport("");
    setProgress({ said: say("reading") });
    try {
      const body = { name: file.name, data: await file.text(), library, judged, questions: Math.max(1, Number(questions) || 1) };
      for await (const [name, data] of events("/api/evaluate", body, stopping.signal)) {
        if (name === "waiting") setProgress({ said: say("waiting", data) });
        else if (name === "progress") setProgress(data);
        else if (name === "note") setNotes((all) => (all.includes(data.said) ? all : [...all, data.said]));
        else if (name === "report") setReport(data.name);
        else if (name === "error") setFailed(data.message);
      }
    } catch (error) {
      if (error.name === "AbortError") setFailed(say("stopped"));
      else setFailed(error.status ? error.message : say("unreachable"));
    }
    setProgress(null);
    setBusy(false);
  };
  const drop = (event) => {  // here a file is a set of questions and no document
    event.preventDefault();
    event.stopPropagation();
    document.body.classList.remove("dragging");
    if (event.dataTransfer.files.length) setFile(event.dataTransfer.files[0]);
  };
  const address = (ending) => `/api/reports/${report}.${ending}?language=${language}`;
  return html`<section class="evaluate" aria-label=${say("evaluate")}>
    <form onSubmit=${evaluate} onDrop=${drop}>
      <div class="drop">
        <p>${say("evaluateHelp")}</p><p><code>${EXAMPLE}</code></p>
        <div class="row"><label class="button"><input type="file" accept=".json,.jsonl,.csv" class="unseen"
          onChange=${(event) => { setFile(event.target.files[0] || null); event.target.value = ""; }} />${say("dataset")}</label></div>
        <p role="status">${file && html`<b>${say("chosen", { name: file.name })}</b>`}</p>
        <small class="quiet">${say("evaluateMake")}</small>
      </div>
      <div class="row">
        <label>${say("questions")} <input class="number" type="number" min="1" value=${questions} onInput=${(event) => setQuestions(event.target.value)} /></label>
        <label><input type="checkbox" checked=${judged} onChange=${(event) => setJudged(event.target.checked)} /> ${say("judged")}</label>
        <span class="space"></span>
        <${Go} say=${say} name="run" ready=${file} busy=${busy} running=${running} />
      </div>
    </form>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    <div role="status">${progress && html`<p class="row">${progress.total > 0 && html`<progress max=${progress.total} value=${progress.done} aria-label=${progress.said}></progress>`}
      <span class="quiet">${progress.total > 0 ? say("left", progress) : progress.said}${progress.left > 1 && say("secondsLeft", { seconds: Math.round(progress.left) })}</span></p>`}
      ${notes.map((one) => html`<p key=${one} class="quiet">${one}</p>`)}</div>
    ${report && html`<p class="row"><span class="quiet">${say("saveAs")}</span>
        <a href=${address("html")} download="evaluation.html">${say("asPage")}</a>
        <a href=${address("json")} download="evaluation.json">JSON</a>
        <a href=${address("csv")} download="evaluation.csv">${say("asTable")}</a></p>
      <iframe class="report" sandbox="" title=${say("report")} src=${address("html")}></iframe>`}
  </section>`;
}
