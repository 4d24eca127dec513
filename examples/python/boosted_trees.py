"""Boosted trees from a DataFrame, by FreightClassifier: cross-validation, a search, validation rows, and a saved model.

Needs scikit-learn, pandas and XGBoost: pip install scikit-learn pandas xgboost-cpu
"""
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

from freight import FreightClassifier

# Who cancels a subscription: numbers, categories, dates and missing values, as they are.
random = np.random.default_rng(0)
rows = 2000
customers = pd.DataFrame({
    "age": random.integers(18, 90, rows),
    "plan": pd.Categorical(random.choice(["basic", "family", "student"], rows)),
    "minutes": random.exponential(120, rows).round(1),
    "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 1500, rows), unit="D"),
    "paperless": random.random(rows) < 0.6,
})
customers.loc[random.random(rows) < 0.1, "minutes"] = np.nan
odds = 1.5 * (customers["plan"] == "student") + customers["age"] / 40 - customers["minutes"].fillna(120) / 80
cancelled = np.where(odds + random.logistic(size=rows) > 1, "yes", "no")

x, x_test, y, y_test = train_test_split(customers, cancelled, test_size=0.25, random_state=0)
print("accuracy of three folds:", cross_val_score(FreightClassifier("gbdt"), x, y, cv=3).round(3))

search = GridSearchCV(FreightClassifier("gbdt", rounds=60), {"max_depth": [2, 4], "lr": [0.1, 0.3]}, cv=3, n_jobs=2).fit(x, y)
print("best settings:", search.best_params_)

x_fit, x_val, y_fit, y_val = train_test_split(x, y, test_size=0.2, random_state=0)
model = FreightClassifier("gbdt", **{**search.best_params_, "rounds": 500, "early_stop": 20})
model.fit(x_fit, y_fit, eval_set=(x_val, y_val))
print(f"test accuracy {model.score(x_test, y_test):.3f} after {model.n_iter_} rounds")
for share, name in sorted(zip(model.feature_importances_, model.feature_names_in_), reverse=True):
    print(f"  {name:10} {share:.2f}")

model.save("cancelled.safetensors")  # for freight predict, eval, serve, export
