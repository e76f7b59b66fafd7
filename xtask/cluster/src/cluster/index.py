"""Files over HTTP. Below `private` are the same files, for whoever has the password.

index.py ADDRESS FOLDER PASSWORD: the file PASSWORD holds `user:password`; without it nobody has it.
"""

import base64
import functools
import http.server
import pathlib
import sys

PRIVATE = "/private/"


class Index(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args, password, **kwargs):
        self.password = password
        super().__init__(*args, **kwargs)

    def send_head(self):
        if self.path.startswith(PRIVATE):
            if not self.may_read():
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="packages"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None
            self.path = self.path.removeprefix(PRIVATE.rstrip("/"))
        return super().send_head()

    def may_read(self):
        if not self.password.is_file():
            return False
        wanted = base64.b64encode(self.password.read_bytes()).decode()
        return self.headers.get("Authorization") == f"Basic {wanted}"


address, folder, password = sys.argv[1:]
handler = functools.partial(Index, directory=folder, password=pathlib.Path(password))
http.server.ThreadingHTTPServer((address, 80), handler).serve_forever()
