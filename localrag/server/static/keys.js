import { html, useEffect, useRef, useState } from "./preact.js";
import { Dialog } from "./dialog.js";

// Single keys get in the way of some who speak to their machine, so that they can be switched off.
const allowed = () => localStorage.getItem("keys") !== "off";

// What a press of one key asks for; null while somebody writes, or chooses in a dialog.
function pressed(event) {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.target.closest?.("input, textarea, select, [contenteditable], dialog") || !allowed()) return null;
  return event.key;
}

export function useKeys(keys) {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const hear = (event) => {
      const act = latest.current[pressed(event)];
      if (act) { event.preventDefault(); act(); }
    };
    addEventListener("keydown", hear);
    return () => removeEventListener("keydown", hear);
  }, []);
}

const KEYS = [["Enter", "keySend"], ["Shift+Enter", "keyLine"], ["/", "keyQuestion"], ["j", "keyNext"], ["k", "keyBefore"], ["Esc", "keyClose"], ["?", "keyHelp"]];

export function Help({ say, close }) {
  const [on, setOn] = useState(allowed());
  const change = (event) => {
    localStorage.setItem("keys", event.target.checked ? "on" : "off");
    setOn(event.target.checked);
  };
  return html`<${Dialog} say=${say} title=${say("keys")} close=${close}>
    <dl class="keys">${KEYS.map(([key, name]) => html`<div key=${name}><dt>${key.split("+").map((one) => html`<kbd>${one}</kbd>`)}</dt><dd>${say(name)}</dd></div>`)}</dl>
    <label class="check"><input type="checkbox" checked=${on} onChange=${change} /> ${say("keysOn")}</label>
  </${Dialog}>`;
}
