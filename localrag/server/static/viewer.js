import { html, useEffect, useRef, useState } from "./preact.js";
import { call } from "./api.js";

export function Viewer({ say, language, view, close }) {
  const [page, setPage] = useState(null);
  const [failed, setFailed] = useState("");
  const heading = useRef(null);
  const marked = useRef(null);
  const { library, document: id, start, end, key } = view;
  useEffect(() => {
    setPage(null);
    call(`/api/view?${new URLSearchParams({ library, document: id, start, end, ...(key && { key }) })}`)
      .then((found) => { setPage(found); setFailed(""); }, (error) => setFailed(error.message));
  }, [library, id, start, end, language]);
  useEffect(() => {
    heading.current?.focus({ preventScroll: true });
    // The viewer alone: the page beside it stays where it is.
    const around = heading.current?.closest("aside");
    if (marked.current) around.scrollTop = marked.current.offsetTop - around.clientHeight / 3;
  }, [page]);
  const title = page && page.cited;
  return html`<aside class="viewer" aria-label=${say("sources")}>
    <div class="row"><h2 ref=${heading} tabindex="-1">${title || ""}</h2><span class="space"></span>
      ${close && html`<button class="quiet" onClick=${close}>${say("close")}</button>`}</div>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    ${view.quote && html`<blockquote>${view.quote.quote}</blockquote>`}
    ${page && page.image && html`<img src=${page.image} alt=${`${title}: ${view.quote ? view.quote.quote : ""}`} />`}
    ${page && page.state && page.state !== "same" && html`<p class="quiet">${say(page.state)}</p>`}
    ${page && page.image && !page.marked && start < end && html`<p class="quiet">${say("unmarked")}</p>`}
    ${page && html`<details open=${!page.image}><summary>${say("text")}</summary><div class="text">
      ${page.before}${page.quoted && html`<mark ref=${marked}>${page.quoted}</mark>`}${page.after}</div></details>`}
  </aside>`;
}
