# Runs a recipe: driver.py FOLDER MODULE. Each line of the input is "insert N" or "bulk N".
import importlib
import sys

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
orders = importlib.import_module(sys.argv[2])
for line in sys.stdin:
    what, n = line.split()
    last = ""
    try:
        if what == "bulk":
            orders.create_many(["tea"] * int(n))
        else:
            for _ in range(int(n)):
                last = orders.create("tea")
        print("done", last, flush=True)
    except Exception as e:
        print("error", type(e).__name__, " ".join(str(e).split()), flush=True)
