import { html } from "./preact.js";

export function Passage({ say, one, show, library }) {
  const open = () => show({ library, document: one.document_id, start: one.start, end: one.end });
  return html`<section class="passage">
    <button class="source" onClick=${open}>${one.source.split(/[\\/]/).pop()}, ${say(one.unit || "page")} ${one.page}</button>
    ${one.heading && html`<span class="quiet"> ${one.heading}</span>`}
    <p>${one.text}</p>
  </section>`;
}
