"""Predict the rows of a CSV file with an exported model; needs numpy and onnxruntime, neither torch nor DiffoR.

diffor export model --out model.onnx                            where DiffoR is
python onnx_only.py model.onnx new.csv > answers.csv            where only onnxruntime is
"""

import argparse
import csv
import json
import sys

import numpy as np
import onnxruntime

MISSING = {"", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
TRUTHS = {"true": 1.0, "false": 0.0}
BLOCK_ROWS = 256


def as_number(text):
    """A cell as a number; missing ones are NaN, truths are 1 and 0, dates such as 2026-11-19 the days since 1970."""
    if text in MISSING:
        return np.nan
    if text.lower() in TRUTHS:
        return TRUTHS[text.lower()]
    is_date = text[4:5] == "-" and text[:4].isdigit()
    return np.datetime64(text, "us").astype(np.int64) / 86_400e6 if is_date else float(text)


def read_inputs(rows, columns):
    """What the program reads: numbers as float64, categories as texts."""
    names = columns["numbers"]
    numbers = np.array([[as_number(row[name]) for name in names] for row in rows], dtype=np.float64)
    inputs = {"numbers": numbers.reshape(len(rows), len(names))}
    if columns["categories"]:
        names = [column["name"] for column in columns["categories"]]
        texts = [[columns["missing_category"] if row[name] in MISSING else row[name] for name in names] for row in rows]
        inputs["categories"] = np.array(texts, dtype=object)
    return inputs


def name_answers(facts, answers):
    """The columns of the answer by name."""
    named = {"prediction": answers["point"]}
    if "grades" in facts:
        return named | {f"p_{grade}": answers["probabilities"][:, k] for k, grade in enumerate(facts["grades"])}
    named |= {"low": answers["interval"][:, 0], "high": answers["interval"][:, 1]}
    return named | {f"q{level!r}": answers["quantiles"][:, k] for k, level in enumerate(facts["quantiles"])}


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help=".onnx file that diffor export wrote")
parser.add_argument("data", help="CSV file with the model's columns")
arguments = parser.parse_args()

session = onnxruntime.InferenceSession(arguments.model, providers=["CPUExecutionProvider"])
facts = json.loads(session.get_modelmeta().custom_metadata_map["diffor"])
outputs = ["point", "probabilities"] if "grades" in facts else ["point", "interval", "quantiles"]
with open(arguments.data, newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))

writer = csv.writer(sys.stdout, lineterminator="\n")
for first in range(0, len(rows), BLOCK_ROWS):
    inputs = read_inputs(rows[first : first + BLOCK_ROWS], facts["columns"])
    answers = name_answers(facts, dict(zip(outputs, session.run(outputs, inputs), strict=True)))
    if first == 0:
        writer.writerow(answers)
    writer.writerows(zip(*(column.tolist() for column in answers.values()), strict=True))
