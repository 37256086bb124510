import { html, useEffect, useRef, useState } from "./preact.js";
import { call, events } from "./api.js";

// Long work on chosen documents whose parts are kept: what was stopped goes on where it was.
// `hear` says for each event what it makes of what there is; `stopped` is called with a request that was stopped.
export function useWork({ say, library, shown, path, all, hear, stopped }) {
  const [offered, setOffered] = useState(null);
  const [chosen, setChosen] = useState(all);
  const [made, setMade] = useState(null);
  const [under, setUnder] = useState("");
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const [said, setSaid] = useState("");
  const running = useRef(null);
  const asked = useRef(null);

  const load = () => call(`/api/tables?${new URLSearchParams({ library })}`).then(setOffered, (error) => setFailed(error.message));
  useEffect(() => { running.current?.abort(); running.current = null; setBusy(false); setMade(null); setOffered(null); setFailed(""); setSaid(""); setChosen(all); }, [library]);
  useEffect(() => { if (shown && library) load(); }, [shown, library]);
  const set = (field) => (event) => setChosen((now) => ({ ...now, [field]: event.target.value }));

  const run = async (body) => {
    const stopping = running.current = new AbortController();
    asked.current = body;
    setBusy(true);
    setFailed("");
    setSaid("");
    setUnder(say("beginning"));
    try {
      for await (const [event, data] of events(path, body, stopping.signal)) {
        if (event === "waiting") setUnder(say("waiting", data));
        else if (event === "loading") setUnder(say("loading"));
        else if (event === "note") setSaid(data.text);
        else if (event === "error") setFailed(data.message);
        else if (hear[event]) setMade((now) => hear[event](now, data));
        if (event === "begun") setUnder(data.text);
      }
    } catch (error) {
      if (error.name !== "AbortError") setFailed(error.status ? error.message : say("unreachable"));
      else if (running.current === stopping && !body.kept_only) await stopped(body, run);
    }
    if (running.current === stopping) setBusy(false);
  };
  const goOn = () => run(asked.current);
  return { offered, load, chosen, setChosen, set, made, busy, under, failed, setFailed, said, setSaid, running, asked, run, goOn };
}

export const State = ({ work: { busy, under, failed, said } }) => html`${failed && html`<p class="failed" role="alert">${failed}</p>`}
  <div role="status">${busy && html`<p class="quiet">${under}</p>`}${said && html`<p class="quiet">${said}</p>`}</div>`;

// Two buttons: one that became the other within a click would send the form.
export const Go = ({ say, name, ready, busy, running }) => (busy
  ? html`<button key="stop" class="main" type="button" onClick=${() => running.current.abort()}>${say("stop")}</button>`
  : html`<button key="go" class="main" type="submit" disabled=${!ready}>${say(name)}</button>`);

// What there is to see before anything was asked: `help`, or that there are no documents.
export const Empty = ({ say, help, toDocuments }) => html`<div class="empty"><p>${say(help || (toDocuments ? "noDocuments" : "stillEmpty"))}</p>
  ${!help && toDocuments && html`<button class="main" onClick=${toDocuments}>${say("addFiles")}</button>`}</div>`;
