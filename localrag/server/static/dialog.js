import { html, useLayoutEffect, useRef } from "./preact.js";

// The browser keeps the focus inside, gives it back, and closes on Escape.
export function Dialog({ say, title, close, children }) {
  const box = useRef(null);
  useLayoutEffect(() => {
    const opened = box.current;
    opened.showModal();
    return () => opened.close();
  }, []);
  return html`<dialog ref=${box} aria-labelledby="dialog-title" onClose=${close}
      onClick=${(event) => { if (event.target === box.current) close(); }}>
    <div class="inside">
      <div class="row top"><h2 id="dialog-title">${title}</h2><span class="space"></span>
        <button class="quiet" onClick=${close}>${say("close")}</button></div>
      ${children}
    </div>
  </dialog>`;
}
