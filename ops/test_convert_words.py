"""Tests of convert_words.py: python3 -m unittest discover ops"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import convert_words as words  # noqa: E402

RECIPE = """\
# rate = 0.1 stays
train = { rate = 0.1, schedule = 'drops', drops = [1, 2] } # rate
search.rate = 0.2
[data]
least_area = 0.1
rate = 3
[train] # of it
drops = [
  1, # drops
  "50%",
]
schedule = "drops"
decay_on = ["templates"]
text = \"\"\"
rate = 1
\"\"\"
# --set train.rate=0.1
[eval]
held_out_every = 2
"""
RECIPE_NOW = """\
# rate = 0.1 stays
train = { lr = 0.1, schedule = 'multistep', milestones = [1, 2] } # rate
search.lr = 0.2
[data]
min_crop_scale = 0.1
rate = 3
[train] # of it
milestones = [
  1, # drops
  "50%",
]
schedule = "multistep"
weight_decay_on = ["templates"]
text = \"\"\"
rate = 1
\"\"\"
# --set train.rate=0.1
[eval]
validation_every = 2
"""
EPOCH = (
    '{"time":1.5,"event":"epoch","averaged":2,"loss":1.0,"train":{"loss":1.0,"rate":0.10,"silent":[0.5]},'
    '"validation":{"ensemble":{"loss":1e-7},"members":[{"loss":2.0},{"loss":3.0}]}}\n'
)
EPOCH_NOW = (
    '{"time":1.5,"event":"epoch","swa":2,"loss":1.0,"train":{"loss":1.0,"lr":0.10,"zero_channels":[0.5]},'
    '"validation":{"ensemble":{"nll":1e-7},"members":[{"nll":2.0},{"nll":3.0}]}}\n'
)
START = '{"event":"start","decay":[{"decay":0.1,"kind":"templates","numbers":3}]}\n'
START_NOW = '{"event":"start","weight_decay":[{"weight_decay":0.1,"kind":"templates","parameters":3}]}\n'
EVAL = '{"event":"eval","part":"held-out","validation":{"ensemble":{"loss":1.0}}}\n'
EVAL_NOW = '{"event":"eval","split":"validation","validation":{"ensemble":{"nll":1.0}}}\n'


class Texts(unittest.TestCase):
    def both(self, convert, old, new):
        self.assertEqual(convert(old), new)
        self.assertEqual(convert(new), new, "a second time changes nothing")

    def test_recipes(self):
        self.both(words.toml, RECIPE, RECIPE_NOW)

    def test_logs(self):
        half = '{"event":"epoch","av'
        self.both(words.log, START + EPOCH + EVAL + half, START_NOW + EPOCH_NOW + EVAL_NOW + half)

    def test_published_runs(self):
        old = '{"images": {"trained": 1, "held_out": 2},\n "choices": "held-out", "seen": "test", "commands": ["a --held-out"]}'
        new = '{"images": {"train": 1, "validation": 2},\n "chosen_on": "validation", "split": "test", "commands": ["a --held-out"]}'
        self.both(words.record, old, new)

    def test_plans(self):
        old = '{"layers":[], "template_sets": [{"deviation":0.5,"length":1e-3}], "deviation": 1}'
        new = '{"layers":[], "template_sets": [{"std":0.5,"row_norm":1e-3}], "deviation": 1}'
        self.both(words.plan, old, new)

    def test_job_lists(self):
        old = "# drops\nset CHOICES=held-out train.drops=[1,2] train.schedule=drops UNTIL=5\n- a.toml 0 x=y # train.rate=1\n"
        new = (
            "# drops\nset CHOSEN_ON=validation train.milestones=[1,2] train.schedule=multistep UNTIL=5\n"
            "- a.toml 0 x=y # train.rate=1\n"
        )
        self.assertTrue(words.is_jobs(old))
        self.both(words.jobs, old, new)


class Folders(unittest.TestCase):
    def test_a_run_stays_whole(self):
        with tempfile.TemporaryDirectory() as name:
            run = pathlib.Path(name)
            checkpoint = run / "checkpoints/0001"
            checkpoint.mkdir(parents=True)
            (run / "evaluation").mkdir()
            (run / "log.jsonl").write_text(START + EPOCH)
            state = {"log_bytes": len(START), "training": {"averaged": 1}}
            files = {"state.json": json.dumps(state).encode(), "average.safetensors": b"x"}
            sums = ""
            for file, data in files.items():
                (checkpoint / file).write_bytes(data)
                sums += f"{hashlib.sha256(data).hexdigest()}  {file}\n"
            (checkpoint / "SHA256SUMS").write_text(sums)
            digest = hashlib.sha256(sums.encode()).hexdigest()
            answer = {"checkpoint": 1, "digest": digest, "part": "held-out", "images": 1, "subsets": []}
            (run / "evaluation/held-out.json").write_text(json.dumps(answer))
            script = [sys.executable, os.path.join(os.path.dirname(words.__file__), "convert_words.py")]
            quiet = {"stdout": subprocess.DEVNULL}
            self.assertEqual(subprocess.run([*script, "--check", name], **quiet).returncode, 1)
            subprocess.run([*script, name], check=True, **quiet)
            self.assertEqual(subprocess.run([*script, "--check", name], **quiet).returncode, 0)
            state = json.loads((checkpoint / "state.json").read_text())
            self.assertEqual(state, {"log_bytes": len(START_NOW), "training": {"swa": 1}})
            sums = (checkpoint / "SHA256SUMS").read_text()
            for line in sums.splitlines():
                digest, file = line.split("  ")
                found = hashlib.sha256((checkpoint / file).read_bytes()).hexdigest()
                self.assertEqual(found, digest, file)
            self.assertIn("swa.safetensors", sums)
            answer = json.loads((run / "evaluation/validation.json").read_text())
            self.assertEqual(answer["digest"], hashlib.sha256(sums.encode()).hexdigest())
            self.assertEqual(answer["split"], "validation")


if __name__ == "__main__":
    unittest.main()
