import { html } from "./preact.js";

export function Passage({ one, show, library, number, children }) {
  const open = () => show({ library, document: one.document_id, start: one.start, end: one.end });
  return html`<section class="passage">
    <div class="row">${number && html`<b>${number}</b>`}<button class="source" onClick=${open}>${one.cited}</button></div>
    <p tabindex="0">${one.text}</p>
    ${children}
  </section>`;
}
