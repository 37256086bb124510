// Texts of the page, in English and Chinese.
const ENGLISH = {
  ask: "Ask", documents: "Documents", search: "Search",
  question: "Your question", placeholder: "Ask your documents …", send: "Ask", stop: "Stop",
  emptyTitle: "Ask your own documents",
  emptyText: "Answers come from your library alone, each sentence with the page that it rests on.",
  noDocuments: "The library is empty. Add files first, then ask.",
  addFiles: "Add files", dropHere: "Drop files here, or choose them",
  adding: "Reading", added: "Added", remove: "Remove", removeAsk: "Remove {name} from the library?",
  found: "Passages found", reading: "Reading the passages …",
  finding: "Searching …", loading: "Loading the models …",
  waiting: "{position} before you, about {seconds} s",
  steps: "Steps", sources: "Sources", copy: "Copy with citations", copied: "Copied",
  again: "New conversation", mode: "Mode", standard: "Standard", selfRag: "Self-RAG",
  supported: "Supported by the source", partly: "Partly supported", not: "Not supported",
  quoted: "Quotation checked", none: "Without a quotation",
  keys: "Keyboard shortcuts", keysOn: "Single keys are shortcuts",
  keySend: "Send the question", keyLine: "New line", keyQuestion: "To the question field",
  keyNext: "Next citation", keyBefore: "Previous citation", keyClose: "Close the page beside the answer", keyHelp: "Show these shortcuts",
  close: "Close", noImage: "The page cannot be shown as a picture; this is its text.",
  changed: "The file has changed since it was read; this is the text that was read.",
  gone: "The file is no longer there; this is the text that was read.",
  enlarge: "Enlarge", pageText: "Text as it was read", badLink: "This link opens no page: it is incomplete, or no longer valid. Ask again for a new one.",
  unmarked: "The place on the page is not known for sure, so nothing is marked.",
  outside: "{count} connections outside since start",
  pages: "{count} pages", passages: "{count} passages", language: "Language",
  noToken: "This address lacks the key. Open the one that `localrag serve` printed.",
  library: "Library", source: "Source code ({licence})", version: "Version {version}",
  switch: "中文", nothing: "Nothing was found.",
  seconds: "{seconds} s", related: "Closest passages", leftOut: "{count} sentences that address a model were left out.",
  waits: "Waits", sending: "Sending …", stopped: "Stopped.", stopName: "Stop {name}", removeName: "Remove {name}",
  kept: "They are copied into the library and never leave this machine.", unread: "Could not be read",
  onPages: "p. {pages}: ", unreachable: "The server cannot be reached.", save: "Save as",
  colon: ": ", quotation: "“{quote}”", passage: "{count} passage", outsideOnce: "1 connection outside since start",
  blocked: "· {count} attempts blocked", blockedOnce: "· 1 attempt blocked",
};
const CHINESE = {
  ask: "提问", documents: "文档", search: "检索",
  question: "您的问题", placeholder: "向您的文档提问……", send: "提问", stop: "停止",
  emptyTitle: "向自己的文档提问",
  emptyText: "回答只依据您的文档库，每句话都标明所依据的页面。",
  noDocuments: "文档库还是空的。请先添加文件，再提问。",
  addFiles: "添加文件", dropHere: "把文件拖到这里，或点击选择",
  adding: "正在读取", added: "已添加", remove: "移除", removeAsk: "从文档库中移除 {name} 吗？",
  found: "找到的段落", reading: "正在阅读段落……",
  finding: "正在检索……", loading: "正在加载模型……",
  waiting: "前面还有 {position} 个，约 {seconds} 秒",
  steps: "步骤", sources: "来源", copy: "复制（含引用）", copied: "已复制",
  again: "新对话", mode: "方式", standard: "标准", selfRag: "Self-RAG",
  supported: "有来源支持", partly: "部分有来源支持", not: "没有来源支持",
  quoted: "引文已核对", none: "没有引文",
  keys: "键盘快捷键", keysOn: "启用单键快捷键",
  keySend: "发送问题", keyLine: "换行", keyQuestion: "转到提问框",
  keyNext: "下一处引用", keyBefore: "上一处引用", keyClose: "关闭旁边的页面", keyHelp: "显示快捷键",
  close: "关闭", noImage: "无法以图片显示此页，以下是它的文字。",
  changed: "文件在读取之后有改动，以下是当时读到的文字。",
  gone: "文件已不在原处，以下是当时读到的文字。",
  enlarge: "放大", pageText: "读取到的文字", badLink: "此链接打不开任何页面：它不完整，或已失效。请重新提问以获得新的链接。",
  unmarked: "无法确定在页面上的位置，因此没有标记。",
  outside: "启动以来对外连接 {count} 次",
  pages: "{count} 页", passages: "{count} 个段落", language: "语言",
  noToken: "此地址缺少密钥。请打开 `localrag serve` 显示的地址。",
  library: "文档库", source: "源代码（{licence}）", version: "版本 {version}",
  switch: "English", nothing: "没有找到。",
  seconds: "{seconds} 秒", related: "最接近的段落", leftOut: "已略去 {count} 句对模型说的话。",
  waits: "等待中", sending: "正在发送……", stopped: "已停止。", stopName: "停止 {name}", removeName: "移除 {name}",
  kept: "文件会复制到文档库中，不会离开本机。", unread: "无法读取的文件",
  onPages: "第 {pages} 页：", unreachable: "无法连接服务器。", save: "保存为",
  colon: "：", quotation: "“{quote}”", passage: "{count} 个段落", outsideOnce: "启动以来对外连接 1 次",
  blocked: "· 已拦截 {count} 次", blockedOnce: "· 已拦截 1 次",
};

export const languages = { en: ENGLISH, zh: CHINESE };

export function preferred() {
  const kept = localStorage.getItem("language");
  if (kept === "en" || kept === "zh") return kept;
  return (navigator.language || "en").toLowerCase().startsWith("zh") ? "zh" : "en";
}

export function speaker(language) {
  return (name, values = {}) =>
    languages[language][name].replace(/\{(\w+)\}/g, (_, key) => String(values[key]));
}
