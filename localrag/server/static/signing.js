import { html, useState } from "./preact.js";
import { signIn } from "./api.js";

// For whoever has no session. What was here of somebody else before is gone with the reload.
export function SignIn({ say }) {
  const [token, setToken] = useState("");
  const [failed, setFailed] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    try {
      await signIn(token.trim());
      location.reload();
    } catch (error) { setFailed(error.status === 401 ? say("badToken") : error.status ? error.message : say("unreachable")); }
  };
  return html`<form class="sign-in" onSubmit=${submit}>
    <h2>${say("signIn")}</h2>
    <p class="quiet" id="token-help">${say("signInHelp")}</p>
    <div class="line">
      <label class="unseen" for="token">${say("token")}</label>
      <input id="token" type="password" autocomplete="current-password" aria-describedby="token-help" placeholder=${say("token")} value=${token}
        onInput=${(event) => setToken(event.target.value)} />
      <button class="main" type="submit" disabled=${!token.trim()}>${say("signIn")}</button>
    </div>
    ${failed && html`<p class="failed" role="alert">${failed}</p>`}
  </form>`;
}
