"""Trains models of scikit-learn, exports them with skl2onnx, runs them with `keel run`, and
compares what comes out with what scikit-learn itself predicts.

usage: sklearn_models.py [--keel PROGRAM] [--device D] [--only WORD] [--help]

  --keel PROGRAM   build/release/bin/keel unless given
  --device D       cpu:0 unless given
  --only WORD      models whose name has WORD

Data is scikit-learn's own. Each model is exported with skl2onnx's default options, and a
classifier also without ZipMap. Prints a line for each model: ok, wrong (by how much) or refused
(the message). Labels must be equal; numbers may differ by 1e-5 of the largest one beside them.
Then trees get NaN, infinities and rows that lie on their thresholds, beside onnxruntime. Exit
status 1 where one is wrong, 77 where a package is not installed.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import onnx.helper
    import skl2onnx
    from skl2onnx.common.data_types import (DoubleTensorType, FloatTensorType, Int64TensorType,
                                            StringTensorType)
    from sklearn import (cluster, compose, datasets, decomposition, ensemble, gaussian_process,
                         impute, linear_model, naive_bayes, neighbors, neural_network, pipeline,
                         preprocessing, svm, tree)
    from sklearn.feature_extraction import text
except ImportError as missing:
    print("a package is not installed: %s" % missing)
    sys.exit(77)

warnings.filterwarnings("ignore")
TOLERANCE = 1e-5
ROWS = 97  # of what is predicted


# ---- data ----------------------------------------------------------------------------

def floats(load):
    x, y = load(return_X_y=True)
    return x.astype(np.float32), y


def with_holes(x):
    """The same with NaN in each seventh place."""
    x = x.copy()
    x.ravel()[::7] = np.nan
    return x


IRIS, WINE = floats(datasets.load_iris), floats(datasets.load_wine)
CANCER, DIABETES = floats(datasets.load_breast_cancer), floats(datasets.load_diabetes)
DIGITS = floats(datasets.load_digits)
HOLES = (with_holes(IRIS[0]), IRIS[1])
HOLES_Y = (with_holes(DIABETES[0]), DIABETES[1])
WHOLE = ((DIGITS[0][:300, 20:24] // 4).astype(np.int64), DIGITS[1][:300])
DOUBLES = (WINE[0].astype(np.float64) * (1 + 1e-9), WINE[1])

def named(data, names):
    """The same with strings as labels."""
    return data[0], np.array(names)[data[1]]


def texts(rows):
    words = "Tree forest leaf ROOT branch Apple pear x2 x22 soup the of and a".split()
    random = np.random.default_rng(5)
    lines = [" ".join(random.choice(words, random.integers(0, 12))) for _ in range(rows)]
    return np.array(lines)[:, None], np.array(["green", "Blue", "red"])[random.integers(0, 3, rows)]


NAMED, NAMED_TWO = named(IRIS, ["iris", "Lily", "a rose"]), named(CANCER, ["no", "Yes"])
COLOURS = (np.array(["red", "Green", "blue", "", "Äpfel"])[DIGITS[0][:300, 20:24].astype(int) % 5],
           DIGITS[1][:300])
TEXTS = texts(200)
TWO_Y = (DIABETES[0], np.stack([DIABETES[1], DIABETES[0][:, 2] * 100], 1))


# ---- models --------------------------------------------------------------------------

def steps(*models):
    return pipeline.make_pipeline(*models)


def scaled(model):
    return steps(preprocessing.StandardScaler(), model)


def by_column():
    return compose.ColumnTransformer(
        [("scaled", preprocessing.StandardScaler(), [0, 1, 2]),
         ("ranged", preprocessing.MinMaxScaler(), [3, 4]),
         ("kept", "passthrough", [5])])


def voting(kind):
    return ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression(max_iter=2000)),
         ("b", tree.DecisionTreeClassifier(max_depth=3)), ("c", naive_bayes.GaussianNB())],
        voting=kind, flatten_transform=False)


pre, lin = preprocessing, linear_model
MODELS = [
    ("standard scaler", pre.StandardScaler(), WINE),
    ("standard scaler f64", pre.StandardScaler(), DOUBLES),
    ("robust scaler", pre.RobustScaler(), WINE),
    ("min-max scaler", pre.MinMaxScaler(), WINE),
    ("max-abs scaler", pre.MaxAbsScaler(), WINE),
    ("normalizer l2", pre.Normalizer(), WINE),
    ("normalizer l1", pre.Normalizer("l1"), (WINE[0] - 5, WINE[1])),
    ("normalizer max", pre.Normalizer("max"), (WINE[0] - 500, WINE[1])),
    ("binarizer", pre.Binarizer(threshold=2.5), WINE),
    ("imputer", impute.SimpleImputer(), HOLES),
    ("imputer median", impute.SimpleImputer(strategy="median"), HOLES),
    ("one-hot encoder", pre.OneHotEncoder(sparse_output=False), WHOLE),
    ("one-hot encoder, others ignored",
     pre.OneHotEncoder(handle_unknown="ignore", sparse_output=False), WHOLE),
    ("ordinal encoder", pre.OrdinalEncoder(), WHOLE),
    ("one-hot encoder of strings", pre.OneHotEncoder(sparse_output=False), COLOURS),
    ("ordinal encoder of strings", pre.OrdinalEncoder(), COLOURS),
    ("strings, encoded, forest",
     steps(pre.OneHotEncoder(), ensemble.RandomForestClassifier(10, random_state=1)), COLOURS),
    ("polynomial features", pre.PolynomialFeatures(2), IRIS),
    ("k-bins discretizer", pre.KBinsDiscretizer(4, encode="ordinal"), IRIS),
    ("k-bins one-hot", pre.KBinsDiscretizer(4, encode="onehot-dense"), IRIS),
    ("PCA", decomposition.PCA(3), WINE),
    ("truncated SVD", decomposition.TruncatedSVD(3), WINE),
    ("linear regression", lin.LinearRegression(), DIABETES),
    ("linear regression of two", lin.LinearRegression(), TWO_Y),
    ("ridge", lin.Ridge(), DIABETES),
    ("lasso", lin.Lasso(alpha=0.1), DIABETES),
    ("logistic regression", lin.LogisticRegression(max_iter=5000), IRIS),
    ("logistic regression of two", scaled(lin.LogisticRegression()), CANCER),
    ("SGD classifier", scaled(lin.SGDClassifier(random_state=1)), IRIS),
    ("SGD classifier, log loss", scaled(lin.SGDClassifier(loss="log_loss", random_state=1)), IRIS),
    ("ridge classifier", scaled(lin.RidgeClassifier()), IRIS),
    ("MLP classifier", scaled(neural_network.MLPClassifier(random_state=1, max_iter=300)),
     IRIS),
    ("MLP regressor", scaled(neural_network.MLPRegressor(random_state=1, max_iter=300)),
     DIABETES),
    ("k-neighbours classifier", neighbors.KNeighborsClassifier(), IRIS),
    ("k-neighbours regressor", neighbors.KNeighborsRegressor(), DIABETES),
    ("Gaussian naive Bayes", naive_bayes.GaussianNB(), IRIS),
    ("decision tree classifier", tree.DecisionTreeClassifier(random_state=1), WINE),
    ("decision tree classifier of two", tree.DecisionTreeClassifier(random_state=1), CANCER),
    ("decision tree regressor", tree.DecisionTreeRegressor(random_state=1), DIABETES),
    ("decision tree regressor of two", tree.DecisionTreeRegressor(max_depth=5, random_state=1),
     TWO_Y),
    ("random forest classifier", ensemble.RandomForestClassifier(30, random_state=1), DIGITS),
    ("random forest regressor", ensemble.RandomForestRegressor(30, random_state=1), DIABETES),
    ("extra trees classifier", ensemble.ExtraTreesClassifier(20, random_state=1), WINE),
    ("extra trees regressor", ensemble.ExtraTreesRegressor(20, random_state=1), DIABETES),
    ("gradient boosting classifier", ensemble.GradientBoostingClassifier(n_estimators=20), IRIS),
    ("gradient boosting of two", ensemble.GradientBoostingClassifier(n_estimators=20), CANCER),
    ("gradient boosting regressor", ensemble.GradientBoostingRegressor(n_estimators=30), DIABETES),
    ("hist gradient boosting classifier", ensemble.HistGradientBoostingClassifier(max_iter=20),
     HOLES),
    ("hist gradient boosting of two", ensemble.HistGradientBoostingClassifier(max_iter=20), CANCER),
    ("hist gradient boosting regressor", ensemble.HistGradientBoostingRegressor(max_iter=20),
     HOLES_Y),
    ("AdaBoost classifier", ensemble.AdaBoostClassifier(n_estimators=10, random_state=1), IRIS),
    ("bagging classifier", ensemble.BaggingClassifier(n_estimators=5, random_state=1), IRIS),
    ("isolation forest", ensemble.IsolationForest(n_estimators=20, random_state=1), WINE),
    ("SVC", scaled(svm.SVC()), IRIS),
    ("SVC, probabilities", scaled(svm.SVC(probability=True, random_state=1)), DIGITS),
    ("SVC of two", scaled(svm.SVC(kernel="linear")), CANCER),
    ("SVC of two, probabilities", scaled(svm.SVC(probability=True, random_state=1)), CANCER),
    ("SVC poly", scaled(svm.SVC(kernel="poly", probability=True, random_state=1)), IRIS),
    ("SVC sigmoid", scaled(svm.SVC(kernel="sigmoid")), IRIS),
    ("NuSVC", scaled(svm.NuSVC(nu=0.2, probability=True, random_state=1)), IRIS),
    ("SVR", scaled(svm.SVR(C=10)), DIABETES),
    ("SVR linear", scaled(svm.SVR(kernel="linear")), DIABETES),
    ("one-class SVM", scaled(svm.OneClassSVM()), IRIS),
    ("linear SVC", svm.LinearSVC(), IRIS),
    ("linear SVC of two", svm.LinearSVC(), CANCER),
    ("linear SVR", scaled(svm.LinearSVR()), DIABETES),
    ("Gaussian process regressor", gaussian_process.GaussianProcessRegressor(alpha=1),
     (DIABETES[0][:150], DIABETES[1][:150])),
    ("k-means", cluster.KMeans(3, n_init=3, random_state=1), WINE),
    ("voting, soft", voting("soft"), IRIS),
    ("voting, hard", voting("hard"), IRIS),
    ("column transformer", steps(by_column(), lin.LogisticRegression(max_iter=2000)), WINE),
    ("named: logistic regression", lin.LogisticRegression(max_iter=5000), NAMED),
    ("named: logistic regression of two", scaled(lin.LogisticRegression()), NAMED_TWO),
    ("named: decision tree", tree.DecisionTreeClassifier(random_state=1), NAMED),
    ("named: gradient boosting of two", ensemble.GradientBoostingClassifier(n_estimators=20),
     NAMED_TWO),
    ("named: SVC", scaled(svm.SVC(probability=True, random_state=1)), NAMED),
    ("named: k-neighbours", neighbors.KNeighborsClassifier(), NAMED),
    ("named: MLP", scaled(neural_network.MLPClassifier(random_state=1, max_iter=300)), NAMED),
    ("named: voting", voting("soft"), NAMED),
    ("text: counts", text.CountVectorizer(), TEXTS),
    ("text: counts of pairs",
     text.CountVectorizer(ngram_range=(1, 2), token_pattern="[a-zA-Z0-9_]+"), TEXTS),
    ("text: counts of characters", text.CountVectorizer(analyzer="char", ngram_range=(1, 3)),
     TEXTS),
    ("text: tf-idf", text.TfidfVectorizer(), TEXTS),
    ("text: tf-idf, stop words", text.TfidfVectorizer(stop_words=["the", "of"]), TEXTS),
    ("text: tf-idf by an expression", text.TfidfVectorizer(token_pattern="[a-zA-Z]+"), TEXTS),
    ("text: tf-idf, logistic regression",
     steps(text.TfidfVectorizer(), lin.LogisticRegression()), TEXTS),
    ("text: counts, naive Bayes", steps(text.CountVectorizer(), naive_bayes.MultinomialNB()),
     TEXTS),
    ("pipeline of imputer, scaler, PCA, forest",
     steps(impute.SimpleImputer(), pre.StandardScaler(), decomposition.PCA(3),
           ensemble.RandomForestClassifier(10, random_state=1)), HOLES),
]


def rows_of(model, x):
    """Vectorizers of text take lines, and all others rows."""
    first = model.steps[0][1] if hasattr(model, "steps") else model
    return x.ravel() if isinstance(first, text.CountVectorizer) else x


def expected(model, x):
    """Labels or None, and numbers or None."""
    x = rows_of(model, x)
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    name = type(last).__name__
    if name in ("IsolationForest", "OneClassSVM"):
        return model.predict(x), model.decision_function(x)
    if name == "KMeans":
        return model.predict(x), model.transform(x)
    if hasattr(last, "classes_"):
        if hasattr(model, "predict_proba"):
            return model.predict(x), model.predict_proba(x)
        if hasattr(model, "decision_function"):
            scores = model.decision_function(x)
            # skl2onnx leaves the sign that libsvm has, which scikit-learn turns
            turned = name in ("SVC", "NuSVC") and len(last.classes_) == 2
            return model.predict(x), -scores if turned else scores
        return model.predict(x), None
    numbers = model.predict(x) if hasattr(model, "predict") else model.transform(x)
    return None, numbers.toarray() if hasattr(numbers, "toarray") else numbers


def is_classifier(model):
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    return hasattr(last, "classes_")


# ---- running -------------------------------------------------------------------------

class Refused(Exception):
    pass


def run(options, model, x):
    """What keel gives, in the model's order."""
    with tempfile.TemporaryDirectory() as folder:
        path, data = os.path.join(folder, "model.onnx"), os.path.join(folder, "x.npy")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        np.save(data, x)
        done = subprocess.run(
            [options.keel, "run", path, "--device", options.device, "--input", data,
             "--output", folder], capture_output=True, text=True, errors="replace")
        if done.returncode:
            raise Refused((done.stderr or done.stdout).strip())
        return [np.load(os.path.join(folder, o.name + ".npy")) for o in model.graph.output]


def error_of(have, want):
    """How far numbers are off, of the largest one. Scores of two classes may stand in one column,
    or in two of which the second is meant."""
    want = np.asarray(want, dtype=np.float64)
    if have.size == 2 * want.size and want.ndim == 1:
        have = have.reshape(-1, 2)[:, 1]
    if have.size != want.size:
        return float("inf")
    have = have.reshape(want.shape).astype(np.float64)
    if not np.array_equal(np.isnan(have), np.isnan(want)):
        return float("inf")
    return float(np.nanmax(np.abs(have - want), initial=0) /
                 max(np.nanmax(np.abs(want), initial=0), 1e-30))


def judge(results, labels, numbers):
    """What is wrong with the results, or None."""
    results = list(results)
    if labels is not None:
        have = results.pop(0).ravel()
        if have.shape != labels.shape:
            return "%d labels, not %d" % (have.size, labels.size)
        if np.any(have != labels):
            return "%d of %d labels" % (np.sum(have != labels), labels.size)
    if numbers is not None and results:
        error = error_of(results[0], numbers)
        if not error <= TOLERANCE:
            return "off by %.3g of the largest" % error
    return None


def port(x):
    kind = {np.dtype(np.int64): Int64TensorType, np.dtype(np.float64): DoubleTensorType}.get(
        x.dtype, StringTensorType if x.dtype.kind == "U" else FloatTensorType)
    return [("x", kind([None, x.shape[1]]))]


make_attribute = onnx.helper.make_attribute


def of_bools(key, value, *rest, **more):
    """skl2onnx gives lists of bools, which newer releases of protobuf refuse as integers."""
    if isinstance(value, (list, tuple)) and any(isinstance(v, (bool, np.bool_)) for v in value):
        value = [int(v) for v in value]
    return make_attribute(key, value, *rest, **more)


onnx.helper.make_attribute = of_bools


def export(model, x, **options):
    more = {"options": {id(model): options}} if options else {}
    try:
        return skl2onnx.convert_sklearn(model, initial_types=port(x), **more)
    except RuntimeError as failed:  # of some models it writes no newer version
        if "version 4 of domain 'ai.onnx.ml'" not in str(failed):
            raise
        more["target_opset"] = {"": 21, "ai.onnx.ml": 3}
        return skl2onnx.convert_sklearn(model, initial_types=port(x), **more)


def exports_of(name, model, x):
    """The model with default options, and where there is such an option without ZipMap."""
    yield name, export(model, x)
    try:
        plain = export(model, x, zipmap=False) if is_classifier(model) else None
    except Exception as failed:  # each model has a kind of its own
        if "zipmap" not in str(failed):
            raise
        plain = None
    if plain:
        yield name + ", no ZipMap", plain


def try_one(options, name, model, exported, x):
    labels, numbers = expected(model, x)
    try:
        why = judge(run(options, exported, x), labels, numbers)
    except Refused as refused:
        print("refused  %s: %s" % (name, refused))
        return True
    print("ok       %s" % name if why is None else "wrong    %s: %s" % (name, why))
    return why is None


# ---- edges of trees, beside onnxruntime ------------------------------------------------

def edges_of(model, x):
    """Rows that lie on the thresholds and right beside them, and such of NaN and infinities."""
    trees = [e.tree_ for e in np.ravel(getattr(model, "estimators_", [model]))]
    rows = []
    for one in trees[:10]:
        for feature, threshold in zip(one.feature, one.threshold):
            if feature < 0:
                continue
            near = np.float32(threshold)
            for value in (near, np.nextafter(near, np.float32(np.inf)),
                          np.nextafter(near, np.float32(-np.inf)), np.nan, np.inf, -np.inf):
                rows.append(x[len(rows) % len(x)].copy())
                rows[-1][feature] = value
    return np.array(rows[:2000], dtype=np.float32)


def try_edges(options):
    """Equal to onnxruntime's, also where NaN goes to the true branch; false: one is wrong."""
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed: trees are not compared with it")
        return True
    good = True
    for name, model, (x, y) in (
            ("tree", tree.DecisionTreeRegressor(max_depth=6, random_state=1), HOLES_Y),
            ("forest", ensemble.RandomForestRegressor(10, random_state=1), DIABETES),
            ("classifier", ensemble.RandomForestClassifier(10, random_state=1), HOLES)):
        exported = export(model.fit(x, y), x)
        rows = edges_of(model, x)
        for missing in None, 0, 1:
            for node in exported.graph.node:
                for attribute in node.attribute:
                    if attribute.name == "nodes_missing_value_tracks_true" and missing is not None:
                        attribute.ints[:] = [missing] * len(attribute.ints)
            session = onnxruntime.InferenceSession(exported.SerializeToString())
            want = session.run(None, {"x": rows})
            if name == "classifier":  # a list of maps
                want[1] = np.array([list(row.values()) for row in want[1]])
            have = run(options, exported, rows)
            error = max(error_of(h, w) for h, w in zip(have, want))
            good &= error <= 1e-6
            print("%s edges of a %s, NaN %s: %d rows" % (
                "ok      " if error <= 1e-6 else "wrong   ", name,
                {None: "as trained", 0: "is no", 1: "is yes"}[missing], len(rows)))
    return good


def main():
    parser = argparse.ArgumentParser(add_help=False)
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
    parser.add_argument("--keel", default=os.path.join(root, "build/release/bin/keel"))
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--only", default="")
    parser.add_argument("--help", action="store_true")
    options = parser.parse_args()
    if options.help:
        print(__doc__.strip())
        return 0
    good = True
    for name, model, (x, y) in MODELS:
        if options.only not in name:
            continue
        model.fit(rows_of(model, x), y)
        try:
            exports = list(exports_of(name, model, x))
        except Exception as failed:  # skl2onnx raises many kinds
            print("not exported  %s: %s" % (name, str(failed).split("\n")[0]))
            continue
        for title, exported in exports:
            good &= try_one(options, title, model, exported, x[:ROWS])
    if not options.only:
        good &= try_edges(options)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
