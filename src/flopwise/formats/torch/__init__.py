"""PyTorch: modules, programs in files, callables by name. Comes in: one of them and its inputs. Goes out: a Graph."""
