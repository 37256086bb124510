import { html } from "./preact.js";
import { Count, patternsOf, useCount, Where } from "./choosing.js";
import { Empty, Go, State, useWork } from "./work.js";

const ALL = { folder: "", name: "", about: "", first: "", last: "" };

export function SummaryPage({ say, library, show, view, empty, toDocuments, shown }) {
  const hear = {
    begun: (_, data) => ({ ...data, lines: null, ended: false }),
    section: withSection,
    summary: (made, data) => ({ ...made, lines: data.lines, told: data.total, ended: data.final }),
  };
  const work = useWork({ say, library, shown, path: "/api/summaries", all: ALL, hear, stopped: () => work.setSaid(say("summaryStopped")) });
  const { offered, chosen, set, made, busy, run } = work;
  const patterns = patternsOf(chosen);
  const count = useCount(shown && library && !empty, { library, patterns });
  const single = count?.count === 1;
  const begin = (event) => {
    event.preventDefault();
    // Of several documents no pages are asked for, and these fields are not there.
    const pages = single ? { first_page: Number(chosen.first) || 0, last_page: Number(chosen.last) || 0 } : {};
    if (!busy) run({ library, patterns, about: chosen.about.trim(), ...pages });
  };
  if (empty) return html`<section class="summary" aria-label=${say("summary")}><${Empty} say=${say} toDocuments=${toDocuments} /></section>`;
  return html`<section class="summary" aria-label=${say("summary")}>
    <form onSubmit=${begin}>
      <p class="quiet">${say("summaryHelp")}</p>
      <div class="fields wide">
        <${Where} say=${say} folders=${offered?.folders} chosen=${chosen} set=${set} />
        <label class="field">${say("about")} <input type="text" maxlength="1999" value=${chosen.about} placeholder=${say("aboutExample")} onInput=${set("about")} /></label>
        ${single && html`<label class="field">${say("firstPage")} <input type="number" min="1" value=${chosen.first} onInput=${set("first")} /></label>
          <label class="field">${say("lastPage")} <input type="number" min="1" value=${chosen.last} onInput=${set("last")} /></label>`}
      </div>
      <div class="row"><${Count} say=${say} count=${count} /><span class="space"></span>
        <${Go} say=${say} name="summaryRun" ready=${count?.count} busy=${busy} running=${work.running} /></div>
    </form>
    <${State} work=${work} />
    ${made && busy && made.left > 0 && html`<p class="quiet">${say("sectionsLeft", { left: made.left })}</p>`}
    ${made && html`<${Made} say=${say} made=${made} busy=${busy} show=${show} view=${view} />`}
    ${made && !busy && !made.ended && html`<p class="row"><button class="main" onClick=${work.goOn}>${say("goOn")}</button></p>`}
  </section>`;
}

function withSection(made, { document, number, section, left }) {
  const documents = [...made.documents];
  const sections = [...documents[document].sections];
  sections[number] = section;
  documents[document] = { ...documents[document], sections };
  return { ...made, documents, left };
}

function Made({ say, made, busy, show, view }) {
  let last = 0;  // markers count over all sections
  return html`<div aria-busy=${busy}>${made.documents.map((one, at) => html`<article key=${one.document} class="turn">
    <h2>${one.source}</h2>
    <p class="quiet">${[one.title !== one.source && one.title, ...one.lines].filter(Boolean).join(" · ")}</p>
    ${one.sections.map((section, number) => {
      const before = last;
      last += new Set(section.citations.map((each) => each.marker)).size;
      return html`<${Section} key=${number} say=${say} section=${section} before=${before} show=${show} view=${view} />`;
    })}
    ${made.lines?.[at] && made.total === 1 && html`<ul class="quiet">${made.lines[at].map((line) => html`<li key=${line}>${line}</li>`)}</ul>`}
  </article>`)}${made.told && html`<p class="quiet">${made.told}</p>`}</div>`;
}

function Section({ say, section, before, show, view }) {
  const order = [...new Set(section.runs.map((run) => run.marker).filter(Boolean))];
  const number = (marker) => before + order.indexOf(marker) + 1;
  const open = (one) => one.view && show({ ...one.view, quote: one });
  const isOpen = (one) => Boolean(view) && Boolean(one.view) && view.document === one.view.document && view.start === one.view.start;
  const cited = [...section.citations].sort((a, b) => number(a.marker) - number(b.marker));
  return html`<div>
    ${section.title && html`<h3>${section.title}</h3>`}
    <p class="answer">${section.runs.map((run, at) => (run.marker
      ? html`<button key=${at} class="marker" onClick=${() => open(cited.find((one) => one.marker === run.marker))}>${number(run.marker)}</button>`
      : run.text))}</p>
    ${section.note && html`<p class="state">(${section.note})</p>`}
    ${cited.length > 0 && html`<details class="more"><summary>${say("sources")} (${cited.length})</summary><ol class="sources">
      ${cited.map((one) => html`<li key=${one.marker + one.quote} class=${isOpen(one) ? "open" : ""}><button class="source" onClick=${() => open(one)}>
        <b>[${number(one.marker)}]</b> ${one.cited}</button> <q>${one.quote}</q></li>`)}</ol></details>`}
  </div>`;
}
