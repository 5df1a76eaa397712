import os
import subprocess
import sys

PROGRAM = """
import threading
import numpy as np
from threadpoolctl import threadpool_info
from diffor.core.threads import SharedLimit

def counts():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

def hold():
    with limit.hold(1):
        entered.set()
        leave.wait(20)

limit, entered, leave, usual = SharedLimit(), threading.Event(), threading.Event(), counts()
other = threading.Thread(target=hold)
with limit.hold(1):
    with limit.hold(1):
        other.start()
        assert entered.wait(20)
    print(usual, counts(), end=" ")
    leave.set()
    other.join()
    print(counts(), end=" ")
print(counts())
"""


def test_the_limit_holds_until_the_last_one_leaves():
    more = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=os.environ | more, timeout=120
    )
    assert ran.stdout.split() == ["{2}", "{1}", "{1}", "{2}"], ran.stderr
