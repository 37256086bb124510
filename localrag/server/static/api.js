// Requests to this server, and nowhere else.
let language = "en";
export function speak(chosen) { language = chosen; }

async function failure(response) {
  let message = `${response.status}`;
  try { message = (await response.json()).error.message; } catch { /* no JSON: the status says it */ }
  const error = new Error(message);
  error.status = response.status;
  return error;
}

export async function call(path, { method = "GET", body, signal } = {}) {
  const headers = { "accept-language": language };
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(path, {
    method, headers, signal, credentials: "same-origin",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) throw await failure(response);
  return response.status === 204 ? null : response.json();
}

// The token comes in the fragment, which no server sees, and is changed for a cookie.
export async function begin() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return false;
  history.replaceState(null, "", location.pathname);
  await signIn(token);
  return true;
}

export async function signIn(token) {
  if (!/^[\x21-\x7e]+$/.test(token)) throw Object.assign(new Error("401"), { status: 401 });  // no header can carry it
  const response = await fetch("/session", {
    method: "POST", credentials: "same-origin",
    headers: { authorization: `Bearer ${token}`, "accept-language": language },
  });
  if (!response.ok) throw await failure(response);
}

// Server-sent events of a POST: EventSource can only GET.
export async function* events(path, body, signal) {
  const response = await fetch(path, {
    method: "POST", signal, credentials: "same-origin", body: JSON.stringify(body),
    headers: { "content-type": "application/json", "accept-language": language },
  });
  if (!response.ok) throw await failure(response);
  yield* parsed(response.body.pipeThrough(new TextDecoderStream()).getReader());
}

async function* parsed(reader) {
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      let name = "message";
      const data = [];
      for (const line of block.split(/\r?\n/)) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (data.length) yield [name, JSON.parse(data.join("\n"))];
    }
  }
}

export async function upload(library, file, signal) {
  const query = new URLSearchParams({ library, name: file.name });
  const response = await fetch(`/api/documents?${query}`, {
    method: "POST", signal, credentials: "same-origin", body: file,
    headers: { "content-type": "application/octet-stream", "accept-language": language },
  });
  if (!response.ok) throw await failure(response);
  return parsed(response.body.pipeThrough(new TextDecoderStream()).getReader());
}
