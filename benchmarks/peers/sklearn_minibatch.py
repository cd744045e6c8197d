"""scikit-learn's MiniBatchNMF with the Kullback-Leibler loss; an iteration is one pass over the samples."""

import numpy as np

from benchmarks.peers.sklearn_mu import Problem, ScikitLearnMU


class ScikitLearnMiniBatch(ScikitLearnMU):
    name = "sklearn-minibatch"
    note = "same start; iteration = one pass in batches of 1024 samples"

    def run(self, problem: Problem, iterations: int) -> None:
        from sklearn.decomposition import MiniBatchNMF

        model = MiniBatchNMF(
            n_components=problem.L0.shape[1],
            beta_loss="kullback-leibler",
            init="custom",
            tol=0,
            max_no_improvement=None,
            max_iter=iterations,
            random_state=0,
        )
        X = problem.X.astype(np.float64)
        problem.L = model.fit_transform(X, W=problem.L0.copy(), H=problem.F0.T.copy())
        problem.F = model.components_.T


PEERS = (ScikitLearnMiniBatch(),)
