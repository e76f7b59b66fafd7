"""A model that calls the tools that it is told to call, and a webhook. Whatever it is sent is its log."""

import hashlib
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def text_of(message):
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def delta_for(request):
    last = request["messages"][-1]
    if not request.get("tools"):
        return {"content": "A talk"}, "stop"
    asked = re.search(r"run (\S+) of (\S+)(?: with (.*))?", text_of(last))
    if last["role"] != "user" or not asked:
        return {"content": "It said: " + text_of(last)}, "stop"
    tool, plugin, given = asked.groups()
    arguments = {"tool": tool, "plugin": plugin, "parameters": json.loads(given or "{}")}
    function = {"name": "run_plugin_tool", "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return {"tool_calls": [call]}, "tool_calls"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        # The key of the model is the one thing that may stand here, so its digest does.
        key = hashlib.sha256(self.headers.get("authorization", "").encode()).hexdigest()
        headers = {k: v for k, v in self.headers.items() if k.lower() != "authorization"}
        received = {"path": self.path, "key": key, "headers": headers, "body": body.decode()}
        print(json.dumps(received, ensure_ascii=False), flush=True)
        if not self.path.endswith("/chat/completions"):
            return self.answer("text/plain", b"")
        delta, reason = delta_for(json.loads(body))
        choices = [
            {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": reason},
        ]
        chunks = [json.dumps({"model": "scripted", "choices": [choice]}) for choice in choices]
        events = "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"])
        self.answer("text/event-stream", events.encode())

    def answer(self, kind, content):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("", 8080), Handler).serve_forever()
