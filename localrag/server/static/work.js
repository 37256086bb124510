import { html, useEffect, useRef, useState } from "./preact.js";
import { call, events } from "./api.js";

// Work that is told as events, one at a time, and ends with the library that it is about.
// `hear` has for each event what is done with its data; `stopped` is called with a request that was stopped.
export function useRun({ say, library, path, first = "reading", hear, stopped }) {
  const [under, setUnder] = useState("");
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const running = useRef(null);
  useEffect(() => () => { running.current?.abort(); running.current = null; setBusy(false); setFailed(""); }, [library]);

  const run = async (body) => {
    const stopping = running.current = new AbortController();
    setBusy(true);
    setFailed("");
    setUnder(say(first));
    try {
      for await (const [event, data] of events(path, body, stopping.signal)) {
        if (hear[event]) hear[event](data, setUnder);
        else if (event === "waiting") setUnder(say("waiting", data));
        else if (event === "loading") setUnder(say("loading"));
        else if (event === "error") setFailed(data.message);
      }
    } catch (error) {
      if (error.name !== "AbortError") setFailed(error.status ? error.message : say("unreachable"));
      else if (running.current === stopping && stopped) await stopped(body);
      else if (running.current === stopping) setFailed(say("stopped"));
    }
    if (running.current === stopping) setBusy(false);
  };
  return { under, busy, failed, setFailed, running, run };
}

// Long work on chosen documents whose parts are kept: what was stopped goes on where it was.
// `hear` says for each event what it makes of what there is.
export function useWork({ say, library, shown, path, all, hear, stopped }) {
  const [offered, setOffered] = useState(null);
  const [chosen, setChosen] = useState(all);
  const [made, setMade] = useState(null);
  const [said, setSaid] = useState("");
  const asked = useRef(null);
  const heard = { note: (data) => setSaid(data.text) };
  for (const event of Object.keys(hear)) {
    heard[event] = (data, setUnder) => {
      setMade((now) => hear[event](now, data));
      if (event === "begun") setUnder(data.text);
    };
  }
  const work = useRun({ say, library, path, first: "beginning", hear: heard, stopped: (body) => (body.kept_only ? null : stopped(body, run)) });

  const load = () => call(`/api/tables?${new URLSearchParams({ library })}`).then(setOffered, (error) => work.setFailed(error.message));
  useEffect(() => { setMade(null); setOffered(null); setSaid(""); setChosen(all); }, [library]);
  useEffect(() => { if (shown && library) load(); }, [shown, library]);
  const set = (field) => (event) => setChosen((now) => ({ ...now, [field]: event.target.value }));

  const run = (body) => {
    asked.current = body;
    setSaid("");
    return work.run(body);
  };
  const goOn = () => run(asked.current);
  return { ...work, offered, load, chosen, setChosen, set, made, said, setSaid, asked, run, goOn };
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
