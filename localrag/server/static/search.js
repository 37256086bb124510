import { html, useEffect, useState } from "./preact.js";
import { call } from "./api.js";
import { Passage } from "./passage.js";

export function Search({ say, library, show }) {
  const [question, setQuestion] = useState("");
  const [found, setFound] = useState(null);
  const [failed, setFailed] = useState("");
  useEffect(() => { setFound(null); }, [library]);
  const search = async (event) => {
    event.preventDefault();
    if (!question.trim()) return;
    try {
      setFound((await call("/api/search", { method: "POST", body: { question, library, k: 10 } })).passages);
      setFailed("");
    } catch (error) { setFailed(error.message); }
  };
  return html`<section aria-label=${say("search")}>
    <form class="line" onSubmit=${search} role="search">
      <label class="unseen" for="words">${say("question")}</label>
      <input id="words" type="search" value=${question} placeholder=${say("placeholder")} onInput=${(event) => setQuestion(event.target.value)} />
      <button class="main" type="submit">${say("search")}</button>
    </form>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    <div role="status" class="quiet">${found && (found.length ? say(found.length === 1 ? "passage" : "passages", { count: found.length }) : say("nothing"))}</div>
    ${found && found.map((one) => html`<${Passage} key=${one.chunk_id} one=${one} show=${show} library=${library} />`)}
  </section>`;
}
