def test_x(tiny_run):
    import os
    print(tiny_run.result.keys(), [ (k, type(v).__name__) for k,v in tiny_run.result.items()])
    for r,d,f in os.walk(tiny_run.path): print(r,f)
    print(tiny_run.result["status"], tiny_run.result["test"]["scaled"], tiny_run.result["baselines"])
