//! A headless Chromium, driven through its own protocol over two pipes, without a driver or a web
//! socket.
//!
//! `--remote-debugging-pipe` reads commands from descriptor 3 and writes replies to 4, as JSON with
//! a zero byte after each (https://chromedevtools.github.io/devtools-protocol). A shell joins the
//! descriptors to named pipes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Environment variable that makes a missing browser a failure.
const NEEDED: &str = "SWN_NEED_BROWSER";
const NAMES: [&str; 4] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
/// Longest wait for a reply, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    process: Child,
    to: File,
    from: Receiver<Value>,
    folder: PathBuf,
    session: Option<String>,
    count: u64,
    /// Messages that are not replies, since the page was opened.
    events: Vec<Value>,
}

impl Browser {
    /// Starts a browser. Without one, prints the reason and returns none, unless the environment
    /// requires it.
    pub fn start(folder: &Path) -> Option<Self> {
        let program = std::env::var("SWN_BROWSER").ok().or_else(|| {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            let there =
                |name: &&&str| std::env::split_paths(&paths).any(|path| path.join(name).is_file());
            NAMES.iter().find(there).map(|name| (*name).to_owned())
        });
        let Some(program) = program else {
            let why = format!("none of {} is on the path; set SWN_BROWSER", NAMES.join(", "));
            assert!(std::env::var_os(NEEDED).is_none(), "{NEEDED} is set, but {why}");
            eprintln!("skipped, there is no browser: {why}");
            return None;
        };
        let folder = folder.join("browser");
        fs::create_dir_all(&folder).unwrap();
        let [to, from] = ["to", "from"].map(|name| folder.join(name));
        assert!(Command::new("mkfifo").args([&to, &from]).status().unwrap().success());
        let flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars \
                     --disable-background-networking --disable-component-update --disable-sync --no-default-browser-check";
        let script = format!(
            "exec \"$0\" {flags} --remote-debugging-pipe --user-data-dir=\"$1/data\" 3<\"$1/to\" 4>\"$1/from\""
        );
        let process = Command::new("sh")
            .args(["-c", &script, &program])
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let to = File::options().write(true).open(to).unwrap();
        let reader = BufReader::new(File::open(from).unwrap());
        let (send, from) = channel();
        std::thread::spawn(move || {
            for message in reader.split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { return };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let (session, count, events) = (None, 0, vec![]);
        let mut browser = Self { process, to, from, folder, session, count, events };
        let target = browser.send("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.send("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.send(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its reply.
    pub fn send(&mut self, method: &str, params: Value) -> Value {
        self.count += 1;
        let mut message = json!({ "id": self.count, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut reply = self.from.recv_timeout(PATIENCE).expect("the browser replies");
            if reply["id"] == self.count {
                assert!(reply.get("error").is_none(), "{method}: {reply}");
                return reply["result"].take();
            }
            self.events.push(reply);
        }
    }

    /// Opens a file, waits until it is drawn, and returns how many milliseconds that took.
    pub fn open(&mut self, file: &Path) -> f64 {
        self.events.clear();
        let url = format!("file://{}", file.display());
        self.send("Page.navigate", json!({ "url": url }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.from.recv_timeout(PATIENCE).expect("the page loads");
            self.events.push(event);
        }
        let drawn = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))";
        self.evaluate(drawn).as_f64().unwrap()
    }

    /// Evaluates an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.send("Runtime.evaluate", params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let params =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.send("Input.dispatchKeyEvent", params);
        }
    }

    /// Scrolls the first element of a selector into view and clicks in its middle.
    pub fn click(&mut self, selector: &str) {
        let place = self.evaluate(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.send("Input.dispatchMouseEvent", params);
        }
    }

    /// Sets the size of the window, and whether the system prefers dark colours.
    pub fn set_window(&mut self, width: u32, height: u32, dark: bool) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.send("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.send("Emulation.setEmulatedMedia", features);
    }

    /// A PNG in base64, of the window or of the whole page.
    pub fn screenshot(&mut self, whole: bool) -> String {
        let params = json!({ "format": "png", "captureBeyondViewport": whole });
        let params = match whole {
            false => params,
            true => {
                let size = self.send("Page.getLayoutMetrics", json!({}))["cssContentSize"].take();
                let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
                json!({ "format": "png", "captureBeyondViewport": true, "clip": clip })
            }
        };
        self.send("Page.captureScreenshot", params)["data"].as_str().unwrap().to_owned()
    }

    /// Errors and warnings of the page since it was opened, and its requests.
    pub fn complaints(&mut self) -> Vec<String> {
        self.evaluate("1"); // messages sent before this reply have arrived
        let mut complaints = vec![];
        for event in &self.events {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => {
                    complaints.push(params["exceptionDetails"].to_string())
                }
                "Runtime.consoleAPICalled" => complaints.push(params["args"].to_string()),
                "Log.entryAdded" => complaints.push(params["entry"].to_string()),
                "Network.requestWillBeSent" if params["type"] != "Document" => {
                    complaints.push(params["request"]["url"].to_string());
                }
                _ => {}
            }
        }
        complaints
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The processes write into the folder until all of them have ended.
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.process.wait();
        for _ in 0..100 {
            if fs::remove_dir_all(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
