// Conversations as files that open without this page, and without a network.
import { inWords } from "./turn.js";

// What documents say is no markup of ours: a picture in it would be fetched by who shows it.
// A bare address would be made a link of (GitHub's dialect), as in `localrag/presentation/markdown.py`.
const plainly = (text) => text.replace(/\s+/g, " ").replace(/[\\`*_[\]<>!#|~&]/g, "\\$&")
  .replace(/htt(?=ps?:)|ft(?=p:)/gi, (one) => `${one[0]}${"x".repeat(one.length - 1)}`).replace(/(www)\.(?=[^\s(:])/gi, "$1[.]");
const escaped = (text) => text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);

// How near the documents come to what they do not answer, a line each.
const missing = ({ question, looked_for, closest, reason }, answer, say) => [
  question !== answer.question && say("part", { question }), looked_for,
  closest && `${say("closest")}${say("colon")}${closest.cited}${say("colon")}${say("quotation", closest)}`, reason,
].filter(Boolean);

export function asMarkdown(turns, { library, say }) {
  const parts = turns.map(({ asked, answer }) => [
    `## ${plainly(asked)}`,
    inWords(answer, say).split(/\n+/).map(plainly).join("\n\n"),
    ...answer.not_found.map((one) => missing(one, answer, say).map(plainly).join("\n\n")),
    answer.citations.map((one, number) => `- \\[${one.marker}\\] ${plainly(answer.cited[number])}${say("colon")}${say("quotation", { quote: plainly(one.quote) })}`).join("\n"),
  ].filter(Boolean).join("\n\n"));
  return `# localrag: ${plainly(library)}\n\n${parts.join("\n\n")}\n`;
}

const STYLE = ":root{color-scheme:light dark}body{max-width:44rem;margin:2rem auto;padding:0 1rem;font:1rem/1.65 system-ui,sans-serif}h1{font-size:1.15rem}h2{font-size:1.2rem;margin:2.5rem 0 .5rem}.answer{white-space:pre-wrap}.answer span{text-decoration:underline 2px;text-underline-offset:4px}.answer .supported,.answer .quoted{text-decoration-color:#2e9e63}.answer .partly{text-decoration-style:dashed;text-decoration-color:#b98300}.answer .not{text-decoration-style:wavy;text-decoration-color:#d0453c}.answer .none,.answer .unchecked{text-decoration-style:dotted;text-decoration-color:#7f8b9c}ol{padding:0;list-style:none}li{margin:.75rem 0;padding-left:.9rem;border-left:3px solid #7f8b9c}blockquote{margin:0}cite{font-style:normal;font-weight:600}footer{margin-top:2.5rem}small,footer{opacity:.75}";
// A test opens such a file and sees that the style applies: this is its SHA-256.
const STYLE_HASH = "sha256-x0vvBxALng+gtlW/3pQQ/hIDmIMLm/bhNIM4PxAGKlI=";

export function asPage(turns, { library, say }) {
  const parts = turns.map(({ asked, answer }, turn) => {
    const place = (number) => `t${turn + 1}-${number + 1}`;
    const part = (one) => (Array.isArray(one)
      ? one.map((number) => ` <a href="#${place(number)}">[${answer.citations[number].marker}]</a>`).join("")
      : escaped(one));
    const sentences = answer.sentences.map((one) => (one.mark
      ? `<span class="${escaped(one.mark)}" title="${escaped(say(one.mark))}">${one.parts.map(part).join("")}</span>`
      : one.parts.map(part).join("")));
    const quotes = answer.citations.map((one, number) => (
      `<li id="${place(number)}"><cite>[${one.marker}] ${escaped(answer.cited[number])}</cite><blockquote>${escaped(say("quotation", { quote: one.quote }))}</blockquote></li>`));
    return `<article><h2>${escaped(asked)}</h2>
<p class="answer">${sentences.join("")}</p>
${answer.not_found.flatMap((one) => missing(one, answer, say).map((line) => `<p>${escaped(line)}</p>\n`)).join("")}<ol>${quotes.join("\n")}</ol></article>`;
  });
  const marks = new Set(turns.flatMap(({ answer }) => answer.sentences.map((one) => one.mark)));
  const legend = [...marks].filter(Boolean).map((mark) => `<span class="${mark}">${escaped(say(mark))}</span>`).join(" · ");
  const title = escaped(`localrag: ${library}`);
  return `<!doctype html>
<html lang="${say("tag")}"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '${STYLE_HASH}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title><style>${STYLE}</style></head>
<body><header><h1>${title}</h1><small>${new Date().toLocaleDateString(say("dates"), { dateStyle: "long" })}</small></header>
<main>
${parts.join("\n")}
</main>
<footer><p class="answer">${legend}</p></footer></body></html>
`;
}

export function download(text, type, ending) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: `localrag-${new Date().toISOString().slice(0, 10)}.${ending}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
