#!/usr/bin/env node
const plain = require("plain-letters");

const { title } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const slug = plain(title).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
console.log(JSON.stringify({ slug }));
