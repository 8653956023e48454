// Shows the OpenAPI document of this server. Where the server wants the API key, the page asks for it and keeps it in
// memory only: with the page, the key is gone.
"use strict";

const kind = document.currentScript.dataset.kind;

async function load(key) {
  const answer = await fetch("openapi.json", { headers: key ? { Authorization: `Bearer ${key}` } : {} });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || `the server answers ${answer.status}`);
  return body;
}

function show(spec, key) {
  const place = document.getElementById("api");
  if (kind === "redoc") {
    Redoc.init(spec, {}, place);
    return;
  }
  const withKey = (request) => {
    if (key && new URL(request.url, location.href).origin === location.origin) {
      request.headers.Authorization = `Bearer ${key}`;
    }
    return request;
  };
  SwaggerUIBundle({ spec, domNode: place, deepLinking: true, requestInterceptor: withKey });
}

function ask(reason) {
  const form = document.getElementById("key");
  document.getElementById("reason").textContent = reason;
  form.hidden = false;
  form.elements.key.focus();
}

async function open(key) {
  try {
    const spec = await load(key);
    document.getElementById("key").hidden = true;
    show(spec, key);
  } catch (error) {
    ask(error.message);
  }
}

document.getElementById("key").addEventListener("submit", (event) => {
  event.preventDefault();
  open(event.target.elements.key.value);
});
open("");
