import { html, useEffect, useRef, useState } from "./preact.js";
import { Go, useRun } from "./work.js";

const EXAMPLE = '{"question": "When was the glass house opened?", "ideal_answer": "In 1907."}';

export function Evaluate({ say, language, library }) {
  const [file, setFile] = useState(null);
  const [questions, setQuestions] = useState("10");
  const [judged, setJudged] = useState(false);
  const [progress, setProgress] = useState(null);
  const [notes, setNotes] = useState([]);
  const [report, setReport] = useState("");
  useEffect(() => setReport(""), [library]);
  const hear = {
    waiting: (data) => setProgress({ said: say("waiting", data) }),
    progress: setProgress,
    note: (data) => setNotes((all) => (all.includes(data.said) ? all : [...all, data.said])),
    report: (data) => setReport(data.name),
  };
  const reading = useRef(false);
  const { busy, failed, setFailed, under, running, run } = useRun({ say, library, path: "/api/evaluate", hear });
  const said = progress || { said: under };

  const evaluate = async (event) => {
    event.preventDefault();
    if (!file || busy || reading.current) return;
    setNotes([]);
    setReport("");
    setProgress(null);
    let data;
    reading.current = true;
    try {
      data = await file.text();
    } catch (error) {  // it was changed or moved since it was chosen
      return setFailed(error.message);
    } finally {
      reading.current = false;
    }
    run({ name: file.name, data, library, judged, questions: Math.max(1, Number(questions) || 1) });
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
    <div role="status">${busy && html`<p class="row">${said.total > 0 && html`<progress max=${said.total} value=${said.done} aria-label=${said.said}></progress>`}
      <span class="quiet">${said.total > 0 ? say("left", said) : said.said}${said.left > 1 && say("secondsLeft", { seconds: Math.round(said.left) })}</span></p>`}
      ${notes.map((one) => html`<p key=${one} class="quiet">${one}</p>`)}</div>
    ${report && html`<p class="row"><span class="quiet">${say("saveAs")}</span>
        <a href=${address("html")} download="evaluation.html">${say("asPage")}</a>
        <a href=${address("json")} download="evaluation.json">JSON</a>
        <a href=${address("csv")} download="evaluation.csv">${say("asTable")}</a></p>
      <iframe class="report" sandbox="" title=${say("report")} src=${address("html")}></iframe>`}
  </section>`;
}
