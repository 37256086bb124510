import { html, useEffect, useState } from "./preact.js";
import { call } from "./api.js";

// What a folder and words of a name come to as patterns; none: all documents.
export const patternsOf = ({ folder, name }) => {
  const words = name.trim();
  if (words) return [folder ? `${folder}/*${words}*` : `*${words}*`];
  return folder ? [folder] : [];
};

// How many documents a choice leaves, before anything is done with them.
export function useCount(active, body) {
  const [count, setCount] = useState(null);
  const sent = JSON.stringify(body);
  useEffect(() => {
    if (!active) return undefined;
    let current = true;
    const timer = setTimeout(() => call("/api/tables/documents", { method: "POST", body: JSON.parse(sent) }).then(
      (found) => current && setCount(found), (error) => current && setCount({ error: error.message }),
    ), 300);
    return () => { current = false; clearTimeout(timer); };
  }, [active, sent]);
  return count;
}

// Folder and name of the documents that are meant.
export const Where = ({ say, folders, chosen, set }) => html`
  ${folders?.length > 0 && html`<label class="field">${say("folder")} <select value=${chosen.folder} onChange=${set("folder")}>
    <option value="">${say("anyFolder")}</option>
    ${folders.map((one) => html`<option key=${one.name} value=${one.name}>${one.name} (${one.count})</option>`)}</select></label>`}
  <label class="field">${say("nameHas")} <input type="text" value=${chosen.name} onInput=${set("name")} /></label>`;

export const Count = ({ say, count }) => html`<p class="quiet" role="status">${count && (count.error || say(count.count ? "chosenOf" : "noneChosen", count))}</p>`;
