// What Grafana's own types say of a dashboard, for the panels that katsubushi.json has.
import type * as dashboard from "@grafana/grafana-foundation-sdk/dashboard";
import type * as prometheus from "@grafana/grafana-foundation-sdk/prometheus";
import type * as stat from "@grafana/grafana-foundation-sdk/stat";
import type * as table from "@grafana/grafana-foundation-sdk/table";
import type * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";

// JSON has the values of enums, not their names.
type Plain<T> = T extends string ? `${T}` : T extends number ? (`${T}` extends `${infer N extends number}` ? N : T) : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;

type Typed<T extends string, Options, Custom> = Omit<Plain<dashboard.Panel>, "type" | "options" | "targets" | "fieldConfig"> & {
  type: T;
  options: Plain<Options>;
  targets: Plain<Omit<prometheus.Dataquery, "_implementsDataqueryVariant" | "dataqueryName">>[];
  fieldConfig: {
    defaults: Omit<Plain<dashboard.FieldConfig>, "custom"> & { custom?: Partial<Plain<Custom>> };
    overrides: Plain<dashboard.FieldConfigSource>["overrides"];
  };
};

// A RowPanel is one without "type" in Grafana's types of a row's own panels.
export type Panel =
  | Typed<"stat", stat.Options, {}>
  | Typed<"table", table.Options, table.FieldConfig>
  | Typed<"timeseries", timeseries.Options, timeseries.FieldConfig>
  | Plain<dashboard.RowPanel>;

export type Dashboard = Omit<Plain<dashboard.Dashboard>, "panels"> & { panels: Panel[] };
