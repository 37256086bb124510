import { html, useEffect, useState } from "./preact.js";
import { Sentence } from "./turn.js";
import { Empty, Go, State, useRun } from "./work.js";

const TITLES = { none: "notReranked", keyword: "byKeyword", learned: "byLearned", "cross-encoder": "byCrossEncoder", llm: "byModel", standard: "standard", "self-rag": "selfRag", judge: "judging" };

export function Compare({ say, library, show, empty, toDocuments }) {
  const [question, setQuestion] = useState("");
  const [reference, setReference] = useState("");
  const [vary, setVary] = useState("rerankers");
  const [found, setFound] = useState(null);
  useEffect(() => setFound(null), [library]);
  const hear = {
    progress: (data, setUnder) => setUnder(say("working", { name: say(TITLES[data.name]) })),
    compared: setFound,
  };
  const work = useRun({ say, library, path: "/api/compare", hear });
  const { busy, failed, running } = work;
  const compare = (event) => {
    event.preventDefault();
    if (!question.trim() || busy) return;
    setFound(null);
    work.run({ question, reference, vary, library });
  };
  return html`<section class="compare" aria-label=${say("compare")}>
    <form onSubmit=${compare}>
      <div class="line">
        <label class="unseen" for="compared">${say("question")}</label>
        <input id="compared" type="search" value=${question} placeholder=${say("question")} onInput=${(event) => setQuestion(event.target.value)} />
        <${Go} say=${say} name="compare" ready=${question.trim()} busy=${busy} running=${running} />
      </div>
      <div class="fields wide">
        <label class="field">${say("vary")} <select value=${vary} onChange=${(event) => setVary(event.target.value)}>
          <option value="rerankers">${say("rerankers")}</option><option value="modes">${say("modes")}</option></select></label>
        <label class="field">${say("reference")} <input type="text" value=${reference} onInput=${(event) => setReference(event.target.value)} /></label>
      </div>
    </form>
    <${State} work=${work} />
    ${!found && !busy && !failed && html`<${Empty} say=${say} help=${!empty && "compareHelp"} toDocuments=${toDocuments} />`}
    ${found && html`<${Compared} say=${say} found=${found} show=${show} library=${library} />`}
  </section>`;
}

function Compared({ say, found, show, library }) {
  const ways = found.ways.filter((way) => way.name !== "none");  // whose order is that of the search
  const from = found.ways.length - ways.length;
  const slowest = Math.max(...found.ways.map((way) => way.seconds), 0.001);
  const open = (one) => show({ library, document: one.document_id, start: one.start, end: one.end });
  return html`<div>
    <h2>${found.question}</h2>
    ${found.notes.map((one, number) => html`<p key=${number} class="problem">${one}</p>`)}
    <div class="ways">${found.ways.map((way) => html`<${Way} key=${way.name} say=${say} way=${way} show=${show} share=${way.seconds / slowest} />`)}</div>
    ${found.lines?.length > 0 && html`<h3>${say("graded")}</h3><ul>${found.lines.map((one, number) => html`<li key=${number}>${one}</li>`)}</ul>
      <p class="quiet">${say("careful")}</p>`}
    ${found.verdicts?.length > 1 && html`<h3>${say("verdicts")}</h3><div class="scrolls" tabindex="0" role="region" aria-label=${say("verdicts")}><table>
      <thead><tr>${found.verdicts[0].map((head, number) => html`<th key=${number} scope="col">${head}</th>`)}</tr></thead>
      <tbody>${found.verdicts.slice(1).map((row, number) => html`<tr key=${number}>${row.map((cell, place) => html`<td key=${place}>${cell}</td>`)}</tr>`)}</tbody></table></div>`}
    ${found.ranks.length > 0 && html`<h3>${say("order")}</h3>
      <div class="scrolls" tabindex="0" role="region" aria-label=${say("order")}><${Orders} say=${say} found=${found} ways=${ways} />
      <table class="orders"><thead><tr><th scope="col">${say("inSearch")}</th>${ways.map((way) => html`<th key=${way.name} scope="col">${say(TITLES[way.name])}</th>`)}
        <th scope="col">${say("passageOne")}</th></tr></thead>
      <tbody>${found.ranks.map((row) => html`<tr key=${row.before}><td>${row.before}</td>
        ${row.ranks.slice(from).map((rank, number) => html`<td key=${number}>${rank ? html`${rank} <${Moved} by=${row.before - rank} />` : "·"}</td>`)}
        <td><button class="source" onClick=${() => open(row.passage)}>${row.passage.cited}</button><div class="excerpt">${row.passage.text}</div></td></tr>`)}
      </tbody></table></div>`}
  </div>`;
}

function Moved({ by }) {
  return by ? html`<span class=${by > 0 ? "up" : "down"}>${by > 0 ? "▲" : "▼"}${Math.abs(by)}</span>` : null;
}

function Way({ say, way, show, share }) {
  const { answer } = way;
  const open = (number) => show({ ...answer.views[number], quote: answer.citations[number] });
  return html`<article class="way">
    <h3>${say(TITLES[way.name])}</h3>
    <div class="bar" aria-hidden="true"><span style=${{ width: `${Math.max(1, 100 * share)}%` }}></span></div>
    <p class="quiet">${say("perWay", { seconds: way.seconds.toFixed(1), tokens: way.tokens, steps: way.steps })}${way.times && html`<br />${way.times}`}</p>
    <p class="answer">${answer.sentences.map((one, number) => html`<${Sentence} key=${number} say=${say} one=${one} citations=${answer.citations} open=${open} />`)}</p>
    <p class="quiet">${way.outcome}</p>
    ${answer.citations.length > 0 && html`<ul class="sources">${answer.citations.map((one, number) => html`<li key=${number}>
      <button class="source" onClick=${() => open(number)}><b>[${one.marker}]</b> ${answer.cited[number]}</button> <q>${one.quote}</q></li>`)}</ul>`}
    ${way.remark && html`<p class="quiet">${way.remark}</p>`}
  </article>`;
}

const COLUMN = 170, ROW = 22, TOP = 34, COLOURS = 8;

// A line for each passage from its rank in the search to its rank with each reranker; the table below says the same.
function Orders({ say, found, ways }) {
  const heads = [say("inSearch"), ...ways.map((way) => say(TITLES[way.name]))];
  const ranks = found.ranks.map((row) => [row.before, ...row.ranks.slice(-ways.length)]);
  const most = Math.max(...found.ways.map((way) => way.before.length));
  const x = (column) => 90 + column * COLUMN;
  const y = (rank) => TOP + Math.min(rank, most + 1) * ROW;
  const width = x(heads.length - 1) + 90, height = TOP + (most + 2) * ROW;
  return html`<svg role="img" aria-label=${say("order")} viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} class="plot">
    ${heads.map((head, column) => html`<text key=${head} x=${x(column)} y="18" text-anchor="middle">${head}</text>`)}
    ${ranks.map((row, number) => {
      const points = row.map((rank, column) => (rank ? [x(column), y(rank), rank] : null));
      const parts = points.slice(1).map((to, column) => (to && points[column] ? `M${points[column][0]} ${points[column][1]}L${to[0]} ${to[1]}` : "")).join("");
      return html`<g key=${row[0]} class=${`run${number % COLOURS}`}><title>${found.ranks[number].passage.cited}</title>
        ${parts && html`<path d=${parts} />`}
        ${points.map((point, column) => point && html`<circle key=${`c${column}`} cx=${point[0]} cy=${point[1]} r="9" />
          <text key=${`t${column}`} class="rank" x=${point[0]} y=${point[1] + 4} text-anchor="middle">${point[2]}</text>`)}</g>`;
    })}
  </svg>`;
}
