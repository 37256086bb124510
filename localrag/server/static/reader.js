import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { call } from "./api.js";

// What was read of a document, page by page, beside its image. `at` is {number} or {offset}.
export function Reader({ say, language, library, document: about, at: first, close }) {
  const [at, setAt] = useState(Object.keys(first).length ? first : { offset: 0 });
  const [page, setPage] = useState(null);
  const [mark, setMark] = useState(null);
  const [failed, setFailed] = useState("");
  const [pictured, setPictured] = useState(true);
  const heading = useRef(null);
  const text = useRef(null);
  const top = useRef(null);

  useLayoutEffect(() => { heading.current.focus({ preventScroll: true }); scrollTo(0, 0); }, []);
  useEffect(() => {
    let shown = true;
    call(`/api/page?${new URLSearchParams({ library, document: about.id, ...at })}`).then(
      (found) => { if (shown) { setPage(found); setMark(null); setPictured(true); setFailed(""); } },
      (error) => { if (shown) setFailed(error.status ? error.message : say("unreachable")); },
    );
    return () => { shown = false; };
  }, [library, about.id, at, language]);
  useEffect(() => {
    const keys = (event) => { if (event.key === "Escape" && !event.isComposing) close(); };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  // Text that is selected is marked on the page, if it is known where it stands.
  useEffect(() => {
    let timer;
    const selected = () => { clearTimeout(timer); timer = setTimeout(look, 400); };
    const look = async () => {
      const chosen = getSelection();
      const inside = text.current?.firstChild;
      if (!page?.image || chosen.isCollapsed || !inside || chosen.anchorNode !== inside || chosen.focusNode !== inside) return;
      const bounds = [chosen.anchorOffset, chosen.focusOffset].sort((a, b) => a - b);
      const [start, end] = bounds.map((to) => page.start + [...page.text.slice(0, to)].length);
      const query = new URLSearchParams({ library, document: about.id, start, end });
      try {
        const found = await call(`/api/view?${query}`);
        if (found.image) setMark({ image: found.image, marked: found.marked });
      } catch (error) { setFailed(error.message); }
    };
    document.addEventListener("selectionchange", selected);
    return () => { clearTimeout(timer); document.removeEventListener("selectionchange", selected); };
  }, [page]);

  const go = (to) => { setAt(to); top.current?.scrollIntoView({ block: "nearest" }); };
  const typed = (event) => {
    const wanted = Number(event.target.value);
    if (Number.isInteger(wanted) && wanted >= 1 && wanted <= page.pages && wanted !== page.number) go({ number: wanted });
    else event.target.value = page.number;
  };
  const troubles = [...new Set(about.problems.flatMap((one) => one.numbers))].sort((a, b) => a - b).slice(0, 20);
  return html`<section class="reader" ref=${top} aria-label=${say("wasRead")}>
    <div class="row"><button onClick=${close}>← ${say("documents")}</button>
      <h2 ref=${heading} tabindex="-1">${about.title}</h2></div>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    ${page && (page.before ?? page.behind) !== null && html`<nav class="row" aria-label=${say("pagesOf")}>
      <button disabled=${page.before === null} onClick=${() => go({ offset: page.before })}>‹ ${say("before")}</button>
      ${page.pages > 1 && html`<label>${say("page")} <input class="number" type="number" min="1" max=${page.pages} value=${page.number} onChange=${typed} />${" "}
        ${say("of", { count: page.pages })}</label>`}
      <button disabled=${page.behind === null} onClick=${() => go({ offset: page.behind })}>${say("behind")} ›</button>
      ${troubles.length > 0 && html`<span class="troubles"><span class="quiet">${say("problemPages")}</span>
        ${troubles.map((one) => html`<button key=${one} class="marker" aria-current=${one === page.number ? "page" : undefined}
          onClick=${() => go({ number: one })}>${one}</button>`)}</span>`}
    </nav>`}
    ${page && html`<div role="status">
      <p class="quiet">${[page.place, page.how, page.tables > 0 && say("tables", { count: page.tables })].filter(Boolean).join(" · ")}</p>
      ${page.notes.map((one, number) => html`<p key=${number} class=${one.problem ? "problem" : "quiet"}>${one.problem && html`<span aria-hidden="true">⚠ </span>`}${one.text}</p>`)}
      ${page.state !== "same" && html`<p class="problem"><span aria-hidden="true">⚠ </span>${say(page.state)}</p>`}
      ${mark && !mark.marked && html`<p class="quiet">${say("unmarked")}</p>`}
    </div>
    <div class=${page.image && pictured ? "beside" : ""}>
      ${page.image && pictured && html`<div class="sheet"><img src=${mark ? mark.image : page.image} onError=${() => setPictured(false)}
        alt=${say("imageOf", { title: about.title, number: page.number })} /></div>`}
      <div>
        ${page.image && !pictured && html`<p class="quiet">${say("noImage")}</p>`}
        ${page.image && pictured && html`<p class="quiet">${say("selectToMark")}</p>`}
        <div class="text" ref=${text} tabindex="0" role="region" aria-label=${say("pageText")}>${page.text || say("noText")}</div>
      </div>
    </div>`}
  </section>`;
}
