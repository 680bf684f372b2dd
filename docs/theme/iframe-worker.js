// A browser starts no worker for a page opened from disk, and the search runs in one: give it a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.loaded = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true }))
      const script = new URL(address, location.href).href.replaceAll('"', "%22")
      this.frame.srcdoc =
        `<script>window.postMessage = (data) => frameElement.answer(data)<\/script><script src="${script}"><\/script>`
      document.body.append(this.frame)
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
