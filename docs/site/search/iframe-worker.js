// Search in pages that are opened as files: a browser starts no Worker from a file, so its script runs in a hidden frame.
// Elsewhere the browser's own Worker is left as it is.
(() => {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(script) {
      super();
      this.waiting = [];
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.frame.addEventListener("load", () => this.begin(new URL(script, location.href).href), { once: true });
      const attach = () => document.body.append(this.frame);
      document.body ? attach() : document.addEventListener("DOMContentLoaded", attach, { once: true });
    }

    begin(script) {
      const inside = this.frame.contentWindow;
      // What a Worker's script calls on its own scope.
      inside.postMessage = (data) => setTimeout(() => this.hear(data));
      inside.importScripts = (...scripts) => scripts.reduce(
        (before, each) => before.then(() => this.load(new URL(each, script).href)), Promise.resolve());
      this.load(script).then(() => {
        const early = this.waiting;
        this.waiting = null;
        early.forEach((data) => this.postMessage(data));
      });
    }

    load(script) {
      return new Promise((done, failed) => {
        const tag = this.frame.contentDocument.createElement("script");
        Object.assign(tag, { src: script, onload: done, onerror: failed });
        this.frame.contentDocument.head.append(tag);
      });
    }

    postMessage(data) {
      if (this.waiting) return void this.waiting.push(data);
      const inside = this.frame.contentWindow;
      setTimeout(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    hear(data) {
      const event = new MessageEvent("message", { data });
      this.onmessage?.(event);
      this.dispatchEvent(event);
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();
