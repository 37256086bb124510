import { html, useEffect, useState } from "./preact.js";
import { call, upload } from "./api.js";

export function Documents({ say, library, show, refresh }) {
  const [documents, setDocuments] = useState(null);
  const [adding, setAdding] = useState([]);
  const [failed, setFailed] = useState("");
  const load = async () => {
    try {
      setDocuments((await call(`/api/documents?${new URLSearchParams({ library })}`)).documents);
    } catch (error) { setFailed(error.message); }
  };
  useEffect(() => { if (library) load(); }, [library]);

  const add = async (files) => {
    for (const file of files) {
      const one = { name: file.name, said: say("adding"), done: false, failed: false };
      setAdding((all) => [...all, one]);
      const tell = (change) => { Object.assign(one, change); setAdding((all) => [...all]); };
      try {
        for await (const [name, data] of await upload(library, file)) {
          if (name === "progress") tell({ said: data.said });
          else if (name === "done") tell({ said: data.said, done: true, failed: data.failed });
          else if (name === "error") tell({ said: data.message, done: true, failed: true });
        }
      } catch (error) { tell({ said: error.message, done: true, failed: true }); }
      await load();
      refresh();
    }
  };
  const remove = async (one) => {
    if (!confirm(say("removeAsk", { name: one.title }))) return;
    try {
      await call(`/api/documents/${one.id}?${new URLSearchParams({ library })}`, { method: "DELETE" });
    } catch (error) { setFailed(error.message); }
    await load();
    refresh();
  };
  const dropped = (event) => { event.preventDefault(); add([...event.dataTransfer.files]); };
  return html`<section aria-label=${say("documents")}>
    <label class="drop" onDragOver=${(event) => event.preventDefault()} onDrop=${dropped}>
      ${say("dropHere")}
      <input type="file" multiple class="unseen" onChange=${(event) => { add([...event.target.files]); event.target.value = ""; }} />
    </label>
    <ul class="adding" role="status">${adding.map((one, number) => html`<li key=${number} class=${one.failed ? "failed" : ""}>
      <b>${one.name}</b> ${one.said}</li>`)}</ul>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
    ${documents && documents.length > 0 && html`<div class="scroll" tabindex="0"><table>
      <thead><tr><th scope="col">${say("name")}</th><th scope="col">${say("language")}</th><th scope="col">${say("state")}</th><th><span class="unseen">${say("remove")}</span></th></tr></thead>
      <tbody>${documents.map((one) => html`<tr key=${one.id}>
        <th scope="row"><button class="source" onClick=${() => show({ library, document: one.id, start: 0, end: 0 })}>${one.title}</button>
          <div class="quiet">${one.sources.join(", ")}</div></th>
        <td>${one.language}</td>
        <td>${say("pages", { count: one.pages })}, ${say("passages", { count: one.chunks })}</td>
        <td><button class="quiet" onClick=${() => remove(one)}>${say("remove")}</button></td></tr>`)}</tbody>
    </table></div>`}
    ${documents && documents.length === 0 && html`<p class="empty">${say("noDocuments")}</p>`}
  </section>`;
}
