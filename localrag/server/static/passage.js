import { html } from "./preact.js";

export function Passage({ one, show, library }) {
  const open = () => show({ library, document: one.document_id, start: one.start, end: one.end });
  return html`<section class="passage">
    <button class="source" onClick=${open}>${one.cited}</button>
    <p tabindex="0">${one.text}</p>
  </section>`;
}
