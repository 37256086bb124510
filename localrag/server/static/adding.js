import { useEffect, useRef, useState } from "./preact.js";
import { upload } from "./api.js";

const SHOWN = 30;  // files that are done and stay in sight, failed ones apart
const OFTEN = 3000;  // ms from one look at the list to the next while files are added

// Files on their way into the library, one after the other, however many were dropped how often.
export function useAdding({ say, library, changed }) {
  const [adding, setAdding] = useState([]);
  const turn = useRef(Promise.resolve());
  const told = useRef(0);
  const busy = adding.some((one) => !one.done);
  useEffect(() => {  // a tab that is closed would cut it off
    if (!busy) return undefined;
    const ask = (event) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [busy]);

  const add = (files) => {
    const made = files.map((file) => ({ name: file.name, said: say("waits"), done: false, failed: false, stopping: new AbortController() }));
    setAdding((all) => [...all, ...made]);
    files.forEach((file, number) => { turn.current = turn.current.then(() => send(file, made[number])); });
    turn.current = turn.current.then(changed);
  };
  const send = async (file, one) => {
    const tell = (change) => { Object.assign(one, change); setAdding((all) => [...all]); };
    if (one.done) return;
    tell({ said: say("sending") });
    try {
      for await (const [name, data] of await upload(library, file, one.stopping.signal)) {
        if (name === "progress") tell({ said: data.said });
        else if (name === "done") tell({ said: data.said, done: true, failed: data.failed });
        else if (name === "error") tell({ said: data.message, done: true, failed: true });
      }
      if (!one.done) tell({ said: say("unreachable"), done: true, failed: true });
    } catch (error) {
      const stopped = error.name === "AbortError";
      tell({ said: stopped ? say("stopped") : error.status ? error.message : say("unreachable"), done: true, failed: !stopped });
    }
    if (Date.now() - told.current > OFTEN) { told.current = Date.now(); await changed(); }
  };
  const stop = (...some) => {
    for (const one of some) { one.stopping.abort(); Object.assign(one, { said: say("stopped"), done: true }); }
    setAdding((all) => [...all]);
  };
  const waiting = adding.filter((one) => !one.done);
  const done = adding.filter((one) => one.done && !one.failed);
  const shown = new Set([...waiting.slice(0, SHOWN), ...done.slice(-SHOWN), ...adding.filter((one) => one.failed).slice(-SHOWN)]);
  return {
    add, stop, waiting, done, failed: adding.length - waiting.length - done.length,
    shown: adding.filter((one) => shown.has(one)), all: adding.length, clear: () => setAdding(waiting),
  };
}

// The files of a drop, those in dropped folders too; what begins with a dot is of the system.
export async function filesOf(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return [...transfer.files];
  const files = [];
  for (const entry of entries) await walk(entry, files);
  return files;
}

async function walk(entry, files) {
  if (entry.name.startsWith(".")) return;
  if (entry.isFile) { files.push(await new Promise((take, fail) => entry.file(take, fail))); return; }
  const reader = entry.createReader();
  for (;;) {  // it gives a hundred at a time
    const some = await new Promise((take, fail) => reader.readEntries(take, fail));
    if (!some.length) return;
    for (const one of some) await walk(one, files);
  }
}
