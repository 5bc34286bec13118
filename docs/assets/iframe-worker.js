// Browsers start no worker for pages that are opened from the disk. The search then runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) =>
        urls.reduce((done, from) => done.then(() => this.load(inside, from)), Promise.resolve())
      this.inside = inside
      this.load(inside, url).then(() => {
        this.send = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }))
        this.waiting.forEach(this.send)
      })
    }

    load(inside, url) {
      return new Promise((done, failed) => {
        const script = inside.document.createElement("script")
        script.src = url
        script.onload = done
        script.onerror = failed
        inside.document.body.append(script)
      })
    }

    postMessage(data) {
      if (this.send) this.send(data)
      else this.waiting.push(data)
    }

    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
