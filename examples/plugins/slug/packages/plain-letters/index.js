module.exports = (text) => text.normalize("NFKD").replace(/[\u0300-\u036f]/g, "");
