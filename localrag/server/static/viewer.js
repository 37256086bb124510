import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { call } from "./api.js";

// `view` is a span of a document, with the key to it where a link brought one; `alone`: it covers
// what else there is. `unknown` is called where whoever opened a link has to sign in first.
export function Viewer({ say, language, view, close, alone, unknown }) {
  const [page, setPage] = useState(null);
  const [failed, setFailed] = useState("");
  const [large, setLarge] = useState(false);
  const heading = useRef(null);
  const marked = useRef(null);
  const viewer = useRef(null);
  const entered = useRef(null);
  const { library, document: id, start, end, key } = view;
  useEffect(() => {
    let shown = true;
    setPage(null);
    setFailed("");
    const asked = new URLSearchParams({ library, document: id, start, end, ...(key ? { key } : {}) });
    call(`/api/view?${asked}`).then(
      (found) => shown && setPage(found),
      (error) => shown && unknown && !key && error.status === 401 ? unknown() : shown && setFailed(error.status === 401 || error.status === 400 ? say("badLink") : error.message),
    );
    return () => { shown = false; };
  }, [library, id, start, end, key, language]);
  useLayoutEffect(() => {
    if (!page) return;
    if (close && entered.current !== view) heading.current?.focus({ preventScroll: true });
    entered.current = view;
    if (!page.image) toMark();
  }, [page]);
  // Only what shows the page moves, and not the answer beside it.
  function toMark() {
    const box = viewer.current, mark = marked.current;
    if (!box || !mark || !page.quoted) return;
    if (box.scrollHeight <= box.clientHeight) { if (!close) mark.scrollIntoView({ block: "center" }); return; }
    const down = mark.getBoundingClientRect().top - box.getBoundingClientRect().top;
    box.scrollTop += down - box.clientHeight / 3;
  }
  const title = page && page.cited;
  return html`<section class="viewer" role=${alone ? "main" : "complementary"} ref=${viewer} aria-label=${say("sources")}>
    <div class="row"><h2 ref=${heading} tabindex="-1">${title || ""}</h2><span class="space"></span>
      ${page && page.image && html`<button class="quiet" aria-pressed=${large} onClick=${() => setLarge(!large)}>${say("enlarge")}</button>`}
      ${close && html`<button class="quiet" onClick=${close}>${say("close")}</button>`}</div>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    ${view.quote && html`<blockquote>${view.quote.quote}</blockquote>`}
    ${page && page.state !== "same" && html`<p class="quiet">${say(page.state === "failed" ? "noImage" : page.state)}</p>`}
    ${page && page.image && !page.marked && page.quoted && html`<p class="quiet">${say("unmarked")}</p>`}
    ${page && page.image && html`<div class=${large ? "sheet large" : "sheet"}>
      <img src=${page.image} onLoad=${toMark} alt=${page.quoted ? `${title}: ${page.quoted}` : title} />
      <span class="at" ref=${marked} style=${{ top: `${100 * page.top}%` }}></span></div>`}
    ${page && html`<details key=${page.image} open=${!page.image}><summary>${say("pageText")}</summary><div class="text">
      ${page.before}${page.quoted && html`<mark ref=${page.image ? null : marked}>${page.quoted}</mark>`}${page.after}</div></details>`}
  </section>`;
}
